/* SPDX-License-Identifier: BSD-2-Clause */
/* Accesses to memory that plain loads and stores cannot reach: mr_is_indirect(). */
#include <linux/dma-buf.h>
#include <string.h>
#include <sys/ioctl.h>

#include "memory/copy.h"
#include "memory/guarded.h"
#include "object/mr.h"

/* Tells the driver of a device that the processor begins or ends an access to its memory. If the ioctl fails, nothing
 * is needed: the memory is coherent, or the device is gone with its pages. */
static void sync_dmabuf(const struct mr *mr, uint64_t flags)
{
	struct dma_buf_sync sync = {flags};

	ioctl(mr->dmabuf, DMA_BUF_IOCTL_SYNC, &sync);
}

bool mr_write_indirect(const struct mr *mr, char *at, const void *from, size_t length)
{
	if (mr->access & MR_NULL)
		return true;
	if (mr->access & IBV_ACCESS_ON_DEMAND)
		return guarded_write(at, from, length);
	sync_dmabuf(mr, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE);
	copy_in_order(at, from, length);
	sync_dmabuf(mr, DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE);
	return true;
}

bool mr_read_indirect(const struct mr *mr, void *to, const char *at, size_t length)
{
	if (mr->access & MR_NULL) {
		memset(to, 0, length);
		return true;
	}
	if (mr->access & IBV_ACCESS_ON_DEMAND)
		return guarded_read(to, at, length);
	sync_dmabuf(mr, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	memcpy(to, at, length);
	sync_dmabuf(mr, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	return true;
}

bool mr_begin_indirect(const struct mr *mr, char *at)
{
	if (mr->access & IBV_ACCESS_ON_DEMAND)
		return guarded_touch(at);
	sync_dmabuf(mr, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW);
	return true;
}

void mr_end_indirect(const struct mr *mr)
{
	if (mr->access & MR_DMABUF)
		sync_dmabuf(mr, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
}
