// SPDX-License-Identifier: BSD-2-Clause
/* The memory of the double: allocations, and copies from one to the other. */
#include "cuda_double.h"

#include <stdio.h>
#include <sys/mman.h>

struct memory *memory_list;
uint64_t memory_ids;

struct memory *memory_find(uintptr_t address, size_t size)
{
	for (struct memory *memory = memory_list; memory; memory = memory->next)
		if (address >= memory->base && address - memory->base < memory->size &&
		    size <= memory->size - (address - memory->base))
			return memory;
	return NULL;
}

struct memory *memory_find_device(CUdeviceptr address, size_t size)
{
	struct memory *memory = memory_find(address, size);

	return memory && memory->fd >= 0 && !memory->no_access ? memory : NULL;
}

void memory_name(uint64_t id, pid_t pid, char name[static 64])
{
	snprintf(name, 64, "cuda-double-%d-%llu", (int)pid, (unsigned long long)id);
}

CUresult memory_add(struct memory what, struct memory **result)
{
	int protection = what.fd < 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
	struct memory *memory = malloc(sizeof(*memory));
	void *base = mmap(NULL, what.pages, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!memory || base == MAP_FAILED) {
		free(memory);
		if (base != MAP_FAILED)
			munmap(base, what.pages);
		if (what.fd >= 0)
			close(what.fd);
		return OUT_OF_MEMORY;
	}
	*memory = what;
	memory->base = (uintptr_t)base;
	memory->context = what.pooled ? NULL : context_current();
	memory->device = context_current()->device;
	memory->next = memory_list;
	*result = memory_list = memory;
	return SUCCESS;
}

void memory_drop(struct memory *memory)
{
	struct memory **place = &memory_list;

	while (*place != memory)
		place = &(*place)->next;
	*place = memory->next;
	if (!memory->reserved)
		munmap((void *)memory->base, memory->pages);
	if (memory->fd >= 0)
		close(memory->fd);
	free(memory);
}

size_t whole_pages(size_t size)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

static CUresult memory_allocate(size_t size, bool host, struct memory **result)
{
	struct memory what = {.size = size, .pages = whole_pages(size), .id = ++memory_ids, .fd = -1};
	char name[64];

	if (!size || what.pages < size)
		return size ? OUT_OF_MEMORY : INVALID_VALUE;
	if (host)
		return memory_add(what, result);
	memory_name(what.id, getpid(), name);
	what.fd = memfd_create(name, MFD_CLOEXEC);
	if (what.fd < 0)
		return OUT_OF_MEMORY;
	if (ftruncate(what.fd, what.pages)) {
		close(what.fd);
		return OUT_OF_MEMORY;
	}
	return memory_add(what, result);
}

CUresult memory_put(CUdeviceptr to, const void *from, size_t size)
{
	struct memory *memory = memory_find_device(to, size);

	for (size_t done = 0; memory && done < size;) {
		ssize_t n = pwrite(memory->fd, (const char *)from + done, size - done, to - memory->base + done);

		if (n <= 0)
			return INVALID_VALUE;
		done += n;
	}
	return memory ? SUCCESS : INVALID_VALUE;
}

CUresult memory_get(void *to, CUdeviceptr from, size_t size)
{
	struct memory *memory = memory_find_device(from, size);

	for (size_t done = 0; memory && done < size;) {
		ssize_t n = pread(memory->fd, (char *)to + done, size - done, from - memory->base + done);

		if (n <= 0)
			return INVALID_VALUE;
		done += n;
	}
	return memory ? SUCCESS : INVALID_VALUE;
}

CUresult memory_move(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	static char buffer[1 << 16]; /* behind the mutex */
	CUresult result = SUCCESS;

	for (size_t done = 0, n; !result && done < size; done += n) {
		n = size - done < sizeof(buffer) ? size - done : sizeof(buffer);
		result = memory_get(buffer, from + done, n);
		if (!result)
			result = memory_put(to + done, buffer, n);
	}
	return result;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	result = memory_allocate(size, false, &memory);
	if (!result)
		*address = memory->base;
	return double_end(result);
}

/* Waits for what the device still has to do, as the real one does in fact. */
API CUresult cuMemFree_v2(CUdeviceptr address)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result || !address)
		return result ? result : double_end(SUCCESS);
	memory = memory_find_device(address, 1);
	if (!memory || memory->base != address || memory->source.pid)
		return double_end(INVALID_VALUE);
	stream_drain(&context_current()->stream);
	for (struct stream *each = stream_list; each; each = each->next)
		stream_drain(each);
	memory_drop(memory);
	return double_end(SUCCESS);
}

/* Of a pool: it belongs to no context. */
API CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	result = memory_allocate(size, false, &memory);
	if (!result) {
		*address = memory->base;
		memory->pooled = true;
		memory->context = NULL;
	}
	return double_end(result);
}

/* The processor can access it, too. */
API CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	result = memory_allocate(size, false, &memory);
	if (result)
		return double_end(result);
	memory->pooled = true;
	*address = memory->base;
	return double_end(mmap((void *)memory->base, memory->pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			       memory->fd, 0) == MAP_FAILED
				  ? OUT_OF_MEMORY
				  : SUCCESS);
}

API CUresult cuMemHostAlloc(void **address, size_t size, unsigned flags)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	result = memory_allocate(size, true, &memory);
	if (!result)
		*address = (void *)memory->base;
	return double_end(result);
}

API CUresult cuMemFreeHost(void *address)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = memory_find((uintptr_t)address, 1);
	if (!memory || memory->fd >= 0 || memory->base != (uintptr_t)address)
		return double_end(INVALID_VALUE);
	memory_drop(memory);
	return double_end(SUCCESS);
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = memory_find_device(address, 1);
	if (!memory)
		return double_end(INVALID_VALUE);
	if (base)
		*base = memory->base;
	if (size)
		*size = memory->size;
	return double_end(SUCCESS);
}

static CUresult attribute_of(const struct memory *memory, int attribute, void *data)
{
	switch (attribute) {
	case ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = memory->context;
		return SUCCESS;
	case ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = memory->fd < 0 ? TYPE_HOST : TYPE_DEVICE;
		return SUCCESS;
	case ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = memory->id;
		return SUCCESS;
	case ATTRIBUTE_ORDINAL:
		*(int *)data = memory->device;
		return SUCCESS;
	}
	return INVALID_VALUE;
}

API CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address)
{
	CUresult result = double_begin();
	struct memory *memory;

	if (result)
		return result;
	memory = memory_find(address, 1);
	return double_end(memory ? attribute_of(memory, attribute, data) : INVALID_VALUE);
}
