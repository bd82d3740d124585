/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs, for files of uroce itself. */
#ifndef UROCE_VERBS_QP_H
#define UROCE_VERBS_QP_H

#include <infiniband/verbs.h>

struct context;

/* Move the QP to ERR, or destroy it, without waiting for one-sided operations that a local peer has started in our
 * memory: they may continue until show_settle(). The second is for QPs that may be destroyed. */
void fail_qp_unsettled(struct ibv_qp *qp);
void destroy_qp_unsettled(struct ibv_qp *qp);

/* Moves the QPs that the application left open in a closed context to RESET. */
void qps_abandon(struct context *c);
/* Makes the QPs of a context whose device is removed flush their requests. */
void qps_fail(struct context *c);

#endif
