/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs queue pairs: sends what the engine makes while qp->lock is held, so that packets of one QP leave in order. */
#ifndef UROCE_PORT_RUN_H
#define UROCE_PORT_RUN_H

#include "loop/helper.h"
#include "loop/loop.h"

/* run.c */
/* What the calling thread needs to run QPs: 0 or -ENOMEM. Other threads make it when they run one, and try again later.
 */
int run_prepare(void);
/* Runs the engine and sends until nothing is left to send. An ACK that may wait (delay_ack) leaves the QP in the
 * ready list. */
void run_qp(struct loop *l, struct qp *qp, uint64_t now, bool delay_ack) REQUIRES(qp->lock);
/* Sets the timer of the QP, if it is not set to an earlier time. */
void set_deadline(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* The bytes that a QP may have in flight: its share of the buffers between this process and its peers. */
uint32_t qp_budget(struct loop *l, struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* The QP has something to send that may wait a little. */
void make_ready(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* Runs the QPs that are ready, and the QP with a delayed ACK. True: there were some. */
bool run_ready(struct loop *l, uint64_t now);
/* Runs only the QP with a delayed ACK. */
bool delayed_ack_run(struct loop *l, uint64_t now);
bool run_timers(struct loop *l, uint64_t now);

static inline void delayed_ack_clear(struct qp *qp) REQUIRES(qp->lock)
{
	if (atomic_load_explicit(&qp->loop.ack_is_delayed, memory_order_relaxed))
		atomic_store_explicit(&qp->loop.ack_is_delayed, false, memory_order_relaxed);
}

/* Needs rx ownership: only a received packet leaves an ACK that may be delayed. False: another QP's ACK is delayed
 * already, the QP is in the ready list, or traffic is one-way, where the sender must not wait for long. */
static inline bool delayed_ack_set(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	struct qp *delayed_ack = atomic_load_explicit(&l->delayed_ack, memory_order_acquire); /* as above */

	if (!qp->req.lossless || qp->loop.is_ready || qp->resp.unacked > 1)
		return false;
	if (delayed_ack != qp && delayed_ack &&
	    atomic_load_explicit(&delayed_ack->loop.ack_is_delayed, memory_order_relaxed))
		return false;
	atomic_store_explicit(&qp->loop.ack_is_delayed, true, memory_order_relaxed);
	if (delayed_ack != qp)
		atomic_store_explicit(&l->delayed_ack, qp, memory_order_release);
	l->delayed_ack_again = true;
	helper_ready(l);
	return true;
}

#endif
