/* SPDX-License-Identifier: BSD-2-Clause */
/* In front of the header of an rdma-core older than 44 (Debian 11 has 33, Ubuntu 22.04 has 39): the names that it does
 * not have yet. RDMA_CORE is its release. */
#include_next <infiniband/verbs.h>

#ifndef UROCE_OLDER_VERBS_H
#define UROCE_OLDER_VERBS_H

#if RDMA_CORE < 34
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
#endif

#if RDMA_CORE < 35
enum ibv_fork_status {
	IBV_FORK_DISABLED,
	IBV_FORK_ENABLED,
	IBV_FORK_UNNEEDED,
};
#endif

#if RDMA_CORE < 39
#define IBV_RATE_800_GBPS  ((enum ibv_rate)23)
#define IBV_RATE_1200_GBPS ((enum ibv_rate)24)
#endif

#if RDMA_CORE < 44
#define IBV_WR_ATOMIC_WRITE	    ((enum ibv_wr_opcode)15)
#define IBV_WC_ATOMIC_WRITE	    ((enum ibv_wc_opcode)9)
#define IBV_QP_EX_WITH_ATOMIC_WRITE (1 << 12)
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
#endif

#endif
