/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of other devices, as dma-bufs: mapped into the process; each access is announced to the exporter
 * (memory/kind.c). The dma-buf of a GPU's memory cannot be mapped, but programs register it at the address that the
 * memory has in the program, and the GPU's driver copies from and to that. */
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/front.h"
#include "fault/inject.h"
#include "memory/gpu.h"
#include "verbs/mr.h"

static int dmabuf_check(uint64_t offset, size_t length, uint64_t iova, int fd, unsigned access)
{
	const unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct dma_buf_sync end = {DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ};

	/* NCCL probes with an invalid descriptor: any error but EOPNOTSUPP means that GPU memory can be registered */
	if (fcntl(fd, F_GETFD) < 0)
		return gpu_works() ? EBADF : EOPNOTSUPP;
	if ((access & ~rights) || mr_check_access(access) || !length || offset + length < length ||
	    iova + length < length || (iova ^ offset) & (page - 1))
		return EINVAL;
	/* only a dma-buf supports this ioctl; the exporter's result does not matter */
	return ioctl(fd, DMA_BUF_IOCTL_SYNC, &end) && (errno == ENOTTY || errno == EINVAL) ? EINVAL : 0;
}

/* Whether the dma-buf has those bytes; if it does not tell its size, yes. */
static bool dmabuf_has(int fd, uint64_t offset, size_t length)
{
	off_t size = lseek(fd, 0, SEEK_END);

	return size < 0 || offset + length <= (uint64_t)size;
}

/* The error for memory of a device that the processor cannot map. */
static int unreachable(int error)
{
	return error == ENOMEM || error == EAGAIN ? error : EOPNOTSUPP;
}

PUBLIC struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					int access)
{
	uint64_t before = offset & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	int error = pd_check(pd) ?: dmabuf_check(offset, length, iova, fd, (unsigned)access);
	int protection = access & IBV_ACCESS_LOCAL_WRITE ? PROT_READ | PROT_WRITE : PROT_READ, copy;
	char *memory;
	struct mr *mr = NULL;

	if (inject_call(CALL_ibv_reg_mr))
		return NULL;
	if (!error && !dmabuf_has(fd, offset, length))
		error = EINVAL;
	if (!error)
		error = mr_add_gpu(&mr, (struct pd *)pd, (void *)(uintptr_t)iova, length, iova, (unsigned)access);
	if (error || mr)
		return error ? fail_null(error) : &mr->base;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* the region outlives the caller's descriptor */
	if (copy < 0)
		return NULL;
	memory = mmap(NULL, length + before, protection, MAP_SHARED, copy, (off_t)(offset - before));
	if (memory == MAP_FAILED) {
		errno = unreachable(errno);
		goto err_fd;
	}
	mr = mr_add_kind((struct pd *)pd, memory + before, length, iova, (unsigned)access, MEMORY_DMABUF,
			 (union memory_handle){.dmabuf = copy});
	if (!mr)
		goto err_map;
	return &mr->base;

err_map:
	munmap(memory, length + before);
err_fd:
	error = errno;
	close(copy);
	return fail_null(error);
}
