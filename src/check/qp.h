/* SPDX-License-Identifier: BSD-2-Clause */
/* State changes and destruction of queue pairs by the program. Behind hooks_any(). Any thread, without locks. */
#ifndef UROCE_CHECK_QP_H
#define UROCE_CHECK_QP_H

#include <infiniband/verbs.h>

/* Forgets the requests of a queue pair that was moved to RESET. */
void check_forget_requests(const void *qp);
/* Notes a change of state by the program. */
void check_moved(const struct ibv_qp *qp);
/* Reports a queue pair that is about to be destroyed, or moved to RESET, with requests outstanding, in RTS. */
void check_ends_qp(const struct ibv_qp *qp, enum ibv_qp_state state, const char *done);
/* The same of an address handle. */
void check_destroys_ah(const struct ibv_ah *ah);
/* Reports a CQ that another thread polls, and waits until it does not any more. The CQ is not known from then on. */
void check_destroys_cq(const struct ibv_cq *cq);

#endif
