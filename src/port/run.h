/* SPDX-License-Identifier: BSD-2-Clause */
/* Running queue pairs: sends what the engine makes while qp->lock is held, so that packets of one QP leave in order. */
#ifndef UROCE_PORT_RUN_H
#define UROCE_PORT_RUN_H

#include "loop/helper.h"
#include "loop/loop.h"

/* Makes the buffers with which the calling thread runs QPs: 0 or -ENOMEM. A thread without them makes them when it runs
 * a QP, and without memory retries later. */
int run_prepare(void);
/* Runs the engine and sends until nothing is left to send. `may_delay_ack`: by UDP an ACK may wait, with the QP in the
 * ready list. `now`: ns. */
void run_qp(struct loop *l, struct qp *qp, uint64_t now, bool may_delay_ack) REQUIRES(qp->lock);
/* Sets the timer of the QP, ns, unless it is set to an earlier time. */
void run_at(struct loop *l, struct qp *qp, uint64_t deadline) REQUIRES(qp->lock);
/* The same with the engine's deadline. */
void set_deadline(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* Bytes that a QP may have in flight: its share of the buffers between this process and its peers. */
uint32_t qp_budget(struct loop *l, struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Adds a QP to the ready list: it has something to send that may wait a little. */
void make_ready(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* Runs the ready QPs. True: there were some. */
bool run_ready(struct loop *l, uint64_t now);
/* Runs the QPs whose timers have fired. True: there were some. */
bool run_timers(struct loop *l, uint64_t now);

#endif
