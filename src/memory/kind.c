/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/kind.h"

#include <linux/dma-buf.h>
#include <string.h>
#include <sys/ioctl.h>

#include "memory/copy.h"
#include "memory/fault.h"
#include "memory/gpu.h"
#include "memory/guarded.h"

static void access_word(void *arg)
{
	struct memory_atomic *a = arg;

	a->before = a->is_add ? atomic_fetch_add_at(a->at, a->swap_add)
			      : atomic_compare_swap_at(a->at, a->compare, a->swap_add);
}

bool memory_atomic_plain(struct memory_atomic *a)
{
	return fault_try(access_word, a);
}

static bool null_read(union memory_handle h, void *to, const char *at, size_t length)
{
	(void)h;
	(void)at;
	memset(to, 0, length);
	return true;
}

static bool null_write(union memory_handle h, char *at, const void *from, size_t length)
{
	(void)h;
	(void)at;
	(void)from;
	(void)length;
	return true;
}

/* Only the local key of a null region is usable, and an atomic needs a remote one. */
static bool null_atomic(union memory_handle h, struct memory_atomic *a)
{
	(void)h;
	(void)a;
	return false;
}

static bool paged_read(union memory_handle h, void *to, const char *at, size_t length)
{
	(void)h;
	return guarded_read(to, at, length);
}

static bool paged_write(union memory_handle h, char *at, const void *from, size_t length)
{
	(void)h;
	return guarded_write(at, from, length);
}

static bool paged_atomic(union memory_handle h, struct memory_atomic *a)
{
	(void)h;
	return guarded_touch(a->at) && memory_atomic_plain(a);
}

/* Tells the driver of a device that the processor begins or ends an access to its memory. If the ioctl fails, nothing
 * is needed: the memory is coherent, or the device is gone with its pages. */
static void dmabuf_sync(union memory_handle h, uint64_t flags)
{
	struct dma_buf_sync sync = {flags};

	ioctl(h.dmabuf, DMA_BUF_IOCTL_SYNC, &sync);
}

static bool dmabuf_read(union memory_handle h, void *to, const char *at, size_t length)
{
	dmabuf_sync(h, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	memcpy(to, at, length);
	dmabuf_sync(h, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	return true;
}

static bool dmabuf_write(union memory_handle h, char *at, const void *from, size_t length)
{
	dmabuf_sync(h, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE);
	copy_in_order(at, from, length);
	dmabuf_sync(h, DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE);
	return true;
}

static bool dmabuf_atomic(union memory_handle h, struct memory_atomic *a)
{
	bool ok;

	dmabuf_sync(h, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW);
	ok = memory_atomic_plain(a);
	dmabuf_sync(h, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
	return ok;
}

static bool kind_gpu_read(union memory_handle h, void *to, const char *at, size_t length)
{
	return gpu_read(h.gpu, to, (uintptr_t)at, length);
}

static bool kind_gpu_write(union memory_handle h, char *at, const void *from, size_t length)
{
	return gpu_write(h.gpu, (uintptr_t)at, from, length);
}

static bool kind_gpu_atomic(union memory_handle h, struct memory_atomic *a)
{
	return gpu_atomic(h.gpu, a);
}

const struct memory_ops memory_ops[MEMORY_KINDS] = {
	[MEMORY_NULL] = {null_read, null_write, null_atomic},
	[MEMORY_PAGED] = {paged_read, paged_write, paged_atomic},
	[MEMORY_DMABUF] = {dmabuf_read, dmabuf_write, dmabuf_atomic},
	[MEMORY_GPU] = {kind_gpu_read, kind_gpu_write, kind_gpu_atomic, 65536},
};
