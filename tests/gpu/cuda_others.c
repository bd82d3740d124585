// SPDX-License-Identifier: BSD-2-Clause
/* Memory of the double for other processes, by handles, and for adapters, as a dma-buf. */
#include "cuda_double.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

API CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = getenv("CUDA_DOUBLE_NO_IPC") ? NULL : memory_find_device(address, 1);
	if (!memory || memory->source.pid || memory->pooled)
		return double_end(INVALID_VALUE);
	struct handle ours = {.pid = getpid(), .fd = memory->fd, .size = memory->size, .id = memory->id};
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ours, sizeof(ours));
	return double_end(SUCCESS);
}

/* Opens another process's memory, unless that has been freed. */
static int open_source(const struct handle *source)
{
	char path[64], name[64], is[128] = "", should[128];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)source->pid, source->fd);
	memory_name(source->id, source->pid, name);
	snprintf(should, sizeof(should), "/memfd:%s (deleted)", name);
	if (readlink(path, is, sizeof(is) - 1) < 0 || strcmp(is, should))
		return -1;
	return open(path, O_RDWR | O_CLOEXEC);
}

static CUresult import(const struct handle *source, struct memory **result)
{
	struct memory what = {.size = source->size, .pages = whole_pages(source->size), .source = *source};

	for (*result = memory_list; *result; *result = (*result)->next)
		if (!memcmp(&(*result)->source, source, sizeof(*source)))
			return SUCCESS;
	what.fd = open_source(source);
	what.id = ++memory_ids;
	return what.fd < 0 ? INVALID_HANDLE : memory_add(what, result);
}

API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;
	struct handle source;

	if (result)
		return result;
	memcpy(&source, &handle, sizeof(source));
	if (source.pid == getpid())
		return double_end(INVALID_CONTEXT);
	result = source.pid > 0 && source.size ? import(&source, &memory) : INVALID_HANDLE;
	if (result)
		return double_end(result);
	memory->opened++;
	*address = memory->base;
	return double_end(SUCCESS);
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = memory_find_device(address, 1);
	if (!memory || memory->base != address || !memory->source.pid)
		return double_end(INVALID_VALUE);
	if (!--memory->opened)
		memory_drop(memory);
	return double_end(SUCCESS);
}

/* The descriptor begins where the allocation does, so the range must, too. As with the real one it is of whole pages,
 * and those of the allocation count up to their end. */
API CUresult cuMemGetHandleForAddressRange(void *fd, CUdeviceptr address, size_t size, int type,
					   unsigned long long flags)
{
	CUresult result = double_begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = memory_find_device(address, 1);
	if (!memory || memory->base != address || type != HANDLE_DMA_BUF || flags || !size ||
	    size != whole_pages(size) || size > memory->pages)
		return double_end(INVALID_VALUE);
	*(int *)fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
	return double_end(*(int *)fd < 0 ? OUT_OF_MEMORY : SUCCESS);
}

static bool is_ours(int fd)
{
	char path[64], name[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name));
	return n > 0 && !strncmp(name, "/memfd:cuda-double-", strlen("/memfd:cuda-double-"));
}

/* Answers what only a dma-buf knows. It is called if this library is loaded before the C library. */
API int ioctl(int fd, unsigned long request, ...)
{
	int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (request == DMA_BUF_IOCTL_SYNC && is_ours(fd))
		return 0;
	return next(fd, request, argument);
}
