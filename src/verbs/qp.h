/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs, for files of uroce itself. */
#ifndef UROCE_VERBS_QP_H
#define UROCE_VERBS_QP_H

#include <infiniband/verbs.h>

struct context;

/* ibv_destroy_qp(3) of a QP that may be destroyed, without waiting for one-sided operations that a local peer has
 * started: they may go on until show_settle(). */
void destroy_qp_unsettled(struct ibv_qp *qp);

/* Moves the QPs that the application left open in a closed context to RESET. */
void qps_abandon(struct context *c);
/* Makes the QPs of a context whose device is removed flush their requests. */
void qps_fail(struct context *c);
/* Destroys the QPs that no process has open any more: remote_take_dead(). */
void qps_bury(struct context *closing);

#endif
