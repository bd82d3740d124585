/* SPDX-License-Identifier: BSD-2-Clause */
/* API of libibverbs since IBVERBS_1.15 (rdma-core 59 and later) that the headers of Debian 12 do not have. Layouts and
 * values are fixed by rdma-core. The C names here are our own, so that they cannot conflict with newer headers. */
#ifndef UROCE_LIBRARY_NEWER_H
#define UROCE_LIBRARY_NEWER_H

#include <infiniband/verbs.h>

struct buf;  /* ibv_buf */
struct dmah; /* ibv_dmah; not supported */

enum { /* ibv_mr_init_attr_mask */
       MR_ATTR_IOVA = 1 << 0,
       MR_ATTR_ADDR = 1 << 1,
       MR_ATTR_FD = 1 << 2,
       MR_ATTR_FD_OFFSET = 1 << 3,
       MR_ATTR_DMAH = 1 << 4,
       MR_ATTR_BUF = 1 << 5,
};

struct mr_init_attr { /* ibv_mr_init_attr; a field whose bit is not in comp_mask may be absent */
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct dmah *dmah;
	struct buf *buf;
};

/* ibv_reg_mr(), ibv_reg_mr_iova() and ibv_reg_dmabuf_mr() in one call. Registers memory at `addr`, or a dma-buf `fd`
 * from `fd_offset` on. NULL with errno on failure. EINVAL: both or neither are given, an unknown bit, or a range
 * outside `buf`. EOPNOTSUPP: a DMA handle is given. Else the errno of those calls. */
struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, const struct mr_init_attr *attr) __asm__("ibv_reg_mr_ex");

/* Allocates `size` bytes for regions, page-aligned; `buf` is the handle. NULL with errno: EINVAL, ENOMEM. */
void *alloc_buf(struct ibv_pd *pd, size_t size, struct buf **buf) __asm__("ibv_alloc_buf");
void free_buf(struct buf *buf) __asm__("ibv_free_buf");
/* As ibv_reg_mr(). The range must be inside `buf`, and `pd` the PD that `buf` was allocated for; else EINVAL. */
struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, struct buf *buf, void *addr, size_t length,
			  int access) __asm__("ibv_reg_buf_mr");
/* Returns -1 with ENODATA: no buffer here is a dma-buf. */
int export_buf_dmabuf_fd(struct buf *buf) __asm__("ibv_export_buf_dmabuf_fd");

/* *speed: in units of 100 Mb/s, the product of width and speed that ibv_query_port() returns. EINVAL: no such port. */
int query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed) __asm__("ibv_query_port_speed");

#endif
