/* The ibv_wr_ functions: an application builds a batch of send work requests call by call and posts it as a
 * whole. A QP that was created for it has a builder, which lives as long as the QP. Its lock is held from
 * wr_start to wr_complete or wr_abort.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_BUILDER_H
#define UROCE_BUILDER_H

#include "object/qp.h"

#define BUILDER_OPS                                                                                    \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |        \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |                        \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_ATOMIC_WRITE)

/* 0 or -ENOMEM. `ops`: enum ibv_qp_create_send_ops_flags, of BUILDER_OPS. */
int builder_create(struct qp *qp, uint64_t ops);
void builder_destroy(struct qp *qp);

#endif
