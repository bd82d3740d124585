/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes of a queue pair's state, for files of uroce itself. */
#ifndef UROCE_VERBS_QP_MODIFY_H
#define UROCE_VERBS_QP_MODIFY_H

#include "object/qp.h"

struct context;

/* Moves the QP to RESET: it causes no packet, timer or event any more. `c`: its context. `settles`: waits for one-sided
 * operations that local peers have started. */
void qp_silence(struct qp *qp, struct context *c, bool settles) EXCLUDES(qp->lock);

/* Moves the QP to ERR without that wait: such operations may go on until show_settle(). */
void fail_qp_unsettled(struct ibv_qp *qp);

#endif
