/* SPDX-License-Identifier: BSD-2-Clause */
/* What libibverbs has had since IBVERBS_1.15 (rdma-core 59 and later), which Debian 12's headers do not know: layouts
 * and values are fixed there. In C all of it has names of our own, so that headers which do know it cannot disagree. */
#ifndef UROCE_VERBS_NEWER_H
#define UROCE_VERBS_NEWER_H

#include <infiniband/verbs.h>

struct buf;  /* ibv_buf */
struct dmah; /* ibv_dmah: there are none here */

enum { /* ibv_mr_init_attr_mask */
       MR_ATTR_IOVA = 1 << 0,
       MR_ATTR_ADDR = 1 << 1,
       MR_ATTR_FD = 1 << 2,
       MR_ATTR_FD_OFFSET = 1 << 3,
       MR_ATTR_DMAH = 1 << 4,
       MR_ATTR_BUF = 1 << 5,
};

struct mr_init_attr { /* ibv_mr_init_attr; what comp_mask does not name need not be there */
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct dmah *dmah;
	struct buf *buf;
};

/* ibv_reg_mr(), ibv_reg_mr_iova() and ibv_reg_dmabuf_mr() in one: of memory at `addr`, or of a dma-buf's `fd` from
 * `fd_offset` on. NULL with errno: EINVAL both, neither, a bit not known, or a range outside `buf`; EOPNOTSUPP a handle
 * for DMA; else theirs. */
struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, const struct mr_init_attr *attr) __asm__("ibv_reg_mr_ex");

/* Memory for regions, `size` bytes from a page's start on; `buf` is its handle. NULL with errno: EINVAL, ENOMEM. */
void *alloc_buf(struct ibv_pd *pd, size_t size, struct buf **buf) __asm__("ibv_alloc_buf");
void free_buf(struct buf *buf) __asm__("ibv_free_buf");
/* As ibv_reg_mr(), of a part of `buf` and in the domain that it was allocated for; else EINVAL. */
struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, struct buf *buf, void *addr, size_t length,
			  int access) __asm__("ibv_reg_buf_mr");
/* -1 with ENODATA: no buffer here is a dma-buf. */
int export_buf_dmabuf_fd(struct buf *buf) __asm__("ibv_export_buf_dmabuf_fd");

/* In 100 Mb/s: what ibv_query_port() says as width and speed. EINVAL: no such port. */
int query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed) __asm__("ibv_query_port_speed");

#endif
