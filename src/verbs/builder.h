/* SPDX-License-Identifier: BSD-2-Clause */
/* The ibv_wr_ functions: an application builds a batch of send work requests call by call and posts it with one call. A
 * QP that is created for them has a builder, which is freed with the QP. The builder's lock is held from wr_start to
 * wr_complete or wr_abort. */
#ifndef UROCE_BUILDER_H
#define UROCE_BUILDER_H

#include "object/qp.h"

/* The flags of enum ibv_qp_create_send_ops_flags that are supported for a QP type: the table in ibv_wr_post(3). */
uint64_t builder_ops(enum ibv_qp_type type);

/* 0 or -ENOMEM. `ops`: a subset of builder_ops(). */
int builder_create(struct qp *qp, uint64_t ops);
void builder_destroy(struct qp *qp);

#endif
