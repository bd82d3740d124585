/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of other devices, as dma-bufs: mapped into the process; each access is announced to the exporter
 * (object/access.c). */
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "object/mr.h"
#include "verbs/context.h"

static int dmabuf_check(uint64_t offset, size_t length, uint64_t iova, int fd, unsigned access)
{
	const unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct dma_buf_sync end = {DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ};

	/* NCCL probes with an invalid descriptor: any error but EOPNOTSUPP means that GPU memory can be registered */
	if (fcntl(fd, F_GETFD) < 0)
		return EOPNOTSUPP;
	if ((access & ~rights) || mr_check_access(access) || !length || offset + length < length ||
	    iova + length < length || (iova ^ offset) & (page - 1))
		return EINVAL;
	/* only a dma-buf supports this ioctl; the exporter's result does not matter */
	return ioctl(fd, DMA_BUF_IOCTL_SYNC, &end) && (errno == ENOTTY || errno == EINVAL) ? EINVAL : 0;
}

PUBLIC struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					int access)
{
	uint64_t before = offset & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	int error = pd_check(pd) ?: dmabuf_check(offset, length, iova, fd, (unsigned)access);
	int protection = access & IBV_ACCESS_LOCAL_WRITE ? PROT_READ | PROT_WRITE : PROT_READ, copy;
	char *memory;
	struct mr *mr;

	if (error)
		return fail_null(error);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* the region outlives the caller's descriptor */
	if (copy < 0)
		return NULL;
	memory = mmap(NULL, length + before, protection, MAP_SHARED, copy, (off_t)(offset - before));
	if (memory == MAP_FAILED)
		goto err_fd;
	mr = mr_add((struct pd *)pd, memory + before, length, iova, (unsigned)access | MR_DMABUF);
	if (!mr)
		goto err_map;
	mr->dmabuf = copy; /* the key is not known to anyone yet, so the region is not in use */
	return &mr->base;

err_map:
	munmap(memory, length + before);
err_fd:
	error = errno;
	close(copy);
	return fail_null(error);
}

int dmabuf_deregister(struct mr *mr)
{
	uint64_t before = (uintptr_t)mr->memory & ((uint64_t)sysconf(_SC_PAGESIZE) - 1), length = mr->length;
	char *memory = mr->memory;
	int fd = mr->dmabuf, error = mr_deregister(mr);

	if (error)
		return error;
	munmap(memory - before, length + before);
	close(fd);
	return 0;
}
