// SPDX-License-Identifier: BSD-2-Clause
/* Virtual reservations of the double. A handle is the address of a struct physical. */
#include "cuda_double.h"

#include <sys/mman.h>
#include <sys/stat.h>

API CUresult cuMemGetAllocationGranularity(size_t *granularity, const void *properties, int option)
{
	*granularity = 2 << 20;
	return SUCCESS;
}

static CUresult add_physical(uint64_t *handle, int fd, size_t size)
{
	struct physical *made = malloc(sizeof(*made));

	if (!made || fd < 0) {
		free(made);
		return OUT_OF_MEMORY;
	}
	*made = (struct physical){fd, 1, size};
	*handle = (uintptr_t)made;
	return SUCCESS;
}

static void put_physical(struct physical *p)
{
	if (--p->references)
		return;
	close(p->fd);
	free(p);
}

API CUresult cuMemCreate(uint64_t *handle, size_t size, const void *properties, unsigned long long flags)
{
	CUresult result = double_begin();
	int fd;

	if (result)
		return result;
	fd = memfd_create("cuda-double-physical", MFD_CLOEXEC);
	if (size % (2 << 20) || fd < 0 || ftruncate(fd, size))
		return double_end(INVALID_VALUE);
	return double_end(add_physical(handle, fd, size));
}

API CUresult cuMemRelease(uint64_t handle)
{
	CUresult result = double_begin();

	if (result)
		return result;
	put_physical((struct physical *)(uintptr_t)handle);
	return double_end(SUCCESS);
}

API CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
				 unsigned long long flags)
{
	void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*address = (uintptr_t)at;
	return at == MAP_FAILED ? OUT_OF_MEMORY : SUCCESS;
}

API CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
	return munmap((void *)(uintptr_t)address, size) ? INVALID_VALUE : SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
	struct physical *p = (struct physical *)(uintptr_t)handle;
	struct memory *memory = malloc(sizeof(*memory));
	CUresult result = double_begin();

	if (result || !memory || offset || size > p->size) {
		free(memory);
		return result ? result : double_end(INVALID_VALUE);
	}
	p->references++;
	*memory = (struct memory){.next = memory_list,
				  .base = address,
				  .size = size,
				  .pages = size,
				  .id = ++memory_ids,
				  .fd = dup(p->fd),
				  .pooled = true,
				  .reserved = true,
				  .no_access = true,
				  .of = p};
	memory_list = memory;
	return double_end(SUCCESS);
}

API CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const void *descriptions, size_t count)
{
	CUresult result = double_begin();
	struct memory *memory;

	if (result)
		return result;
	memory = memory_find(address, size);
	if (!memory || !memory->reserved)
		return double_end(INVALID_VALUE);
	memory->no_access = false;
	return double_end(SUCCESS);
}

API CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
	CUresult result = double_begin();
	struct memory *memory;

	if (result)
		return result;
	memory = memory_find(address, size);
	if (!memory || !memory->reserved || memory->size != size)
		return double_end(INVALID_VALUE);
	put_physical(memory->of);
	memory_drop(memory);
	return double_end(SUCCESS);
}

API CUresult cuMemRetainAllocationHandle(uint64_t *handle, CUdeviceptr address)
{
	CUresult result = double_begin();
	struct memory *memory;

	if (result)
		return result;
	memory = memory_find(address, 1);
	if (!memory || !memory->of)
		return double_end(INVALID_VALUE);
	memory->of->references++;
	*handle = (uintptr_t)memory->of;
	return double_end(SUCCESS);
}

API CUresult cuMemExportToShareableHandle(int *fd, uint64_t handle, int type, unsigned long long flags)
{
	*fd = type == 1 ? dup(((struct physical *)(uintptr_t)handle)->fd) : -1;
	return *fd < 0 ? INVALID_VALUE : SUCCESS;
}

API CUresult cuMemImportFromShareableHandle(uint64_t *handle, intptr_t fd, int type)
{
	CUresult result = double_begin();
	struct stat is;

	if (result)
		return result;
	return double_end(type != 1 || fstat((int)fd, &is) ? INVALID_VALUE
							   : add_physical(handle, dup((int)fd), is.st_size));
}
