/* SPDX-License-Identifier: BSD-2-Clause */
/* Running queue pairs: sends what the engine makes while qp->lock is held, so that packets of one QP leave in order. */
#ifndef UROCE_PORT_RUN_H
#define UROCE_PORT_RUN_H

#include "loop/helper.h"
#include "loop/loop.h"

/* Makes the buffers with which the calling thread runs QPs: 0 or -ENOMEM. A thread without them makes them when it runs
 * a QP, and without memory retries later. */
int run_prepare(void);
/* Runs the engine and sends until nothing is left to send. `delay_ack`: an ACK may wait, with the QP in the ready list.
 * `now`: ns. */
void run_qp(struct loop *l, struct qp *qp, uint64_t now, bool delay_ack) REQUIRES(qp->lock);
/* Sets the timer of the QP, ns, unless it is set to an earlier time. */
void run_at(struct loop *l, struct qp *qp, uint64_t deadline) REQUIRES(qp->lock);
/* The same with the engine's deadline. */
void set_deadline(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* Bytes that a QP may have in flight: its share of the buffers between this process and its peers. */
uint32_t qp_budget(struct loop *l, struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Adds a QP to the ready list: it has something to send that may wait a little. */
void make_ready(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* Runs the ready QPs, and the QP with a delayed ACK. True: there were some. */
bool run_ready(struct loop *l, uint64_t now);
/* Runs only the QP with a delayed ACK. True: there was one. */
bool delayed_ack_run(struct loop *l, uint64_t now);
/* Runs the QPs whose timers have fired. True: there were some. */
bool run_timers(struct loop *l, uint64_t now);

static inline void delayed_ack_clear(struct qp *qp) REQUIRES(qp->lock)
{
	if (atomic_load_explicit(&qp->loop.ack_is_delayed, memory_order_relaxed))
		atomic_store_explicit(&qp->loop.ack_is_delayed, false, memory_order_relaxed);
}

/* Delays the ACK of a QP until its next post. Needs rx ownership, as only a received packet leaves an ACK. False:
 * another QP's ACK is delayed already, the QP is in the ready list, or traffic is one-way, where the sender must not
 * wait. */
static inline bool delayed_ack_set(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	struct qp *delayed_ack =
		atomic_load_explicit(&l->delayed_ack, memory_order_acquire); /* pairs with the release below */

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
