/* SPDX-License-Identifier: BSD-2-Clause */
/* The ibv_wr_ functions: an application builds a batch of send work requests call by call and posts it as a
 * whole. A QP that was created for it has a builder, which lives as long as the QP. Its lock is held from
 * wr_start to wr_complete or wr_abort. */
#ifndef UROCE_BUILDER_H
#define UROCE_BUILDER_H

#include "object/qp.h"

/* Those of enum ibv_qp_create_send_ops_flags that there are for a type of QP: the table in ibv_wr_post(3). */
uint64_t builder_ops(enum ibv_qp_type type);

/* 0 or -ENOMEM. `ops`: of builder_ops(). */
int builder_create(struct qp *qp, uint64_t ops);
void builder_destroy(struct qp *qp);

#endif
