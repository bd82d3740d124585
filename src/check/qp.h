/* SPDX-License-Identifier: BSD-2-Clause */
/* The program changes the state of a queue pair, or destroys it. Behind hooks_any(). Any thread, without locks. */
#ifndef UROCE_CHECK_QP_H
#define UROCE_CHECK_QP_H

#include <infiniband/verbs.h>

/* The queue pair was moved to RESET. */
void check_forget_requests(const void *qp);
/* The program has changed its state. */
void check_moved(const struct ibv_qp *qp);
/* It is about to be destroyed. */
void check_destroys_qp(const struct ibv_qp *qp);

#endif
