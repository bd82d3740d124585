/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester of UC and UD: work requests become packets once, and complete when these are sent (IBTA 9.8.2.1,
 * 9.8.3.1). Nothing is acknowledged or sent again; flow.c says when a packet waits. */

#include "engine/unreliable.h"

#include "engine/complete.h"
#include "engine/flow.h"
#include "engine/request.h"
#include "object/sge.h"

static bool unreliable_may_send(const struct qp *qp)
{
	return (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) && !qp->req.pause;
}

void unreliable_sent(struct qp *qp)
{
	while (qp->sq.head != qp->req.wqe)
		complete_head(qp, IBV_WC_SUCCESS);
}

/* Moves the cursor past a packet. */
static void step(struct requester *r, const struct wqe *w)
{
	r->next = r->una = r->high = psn_add(r->next, 1);
	if (++r->packet == w->packets) {
		r->wqe++;
		r->packet = 0;
	}
}

/* True if the memory of the request may be read. */
static bool is_readable(const struct qp *qp, const struct wqe *w)
{
	return (w->flags & IBV_SEND_INLINE) || sge_allowed(qp->hca, qp->pd, w->sge, w->num_sge, 0);
}

/* Sends the packet at the cursor. False: it must wait. */
static bool unreliable_send_next(struct qp *qp, struct tx_batch *batch)
{
	struct requester *r = &qp->req;
	struct wqe *w = sq_at(&qp->sq, r->wqe);
	struct flow *f;
	struct tx *tx;

	if (w->state == WQE_ERROR || (w->state == WQE_POSTED && !pick_up(qp, w)))
		return false;
	if (w->packets == 0) { /* done already */
		r->wqe++;
		return true;
	}
	f = qp->flow ? flow_of(qp, w) : NULL;
	if (f && flow_holds(qp, batch, f, w)) {
		if (is_readable(qp, w))
			return false;
		qp->req.held = NULL; /* it fails below, whatever the peer has room for */
	}
	if (!request_fits(qp, batch, w, r->packet) || (f && !flow_reserve(qp, batch, f, w->length))) {
		if (!f || !flow_loses(qp, batch, f))
			return false;
		step(r, w);
		return true;
	}
	tx = request_packet(qp, batch, w, r->wqe, r->packet, r->next, false);
	if (!tx) {
		if (f)
			flow_release(batch, f, w->length);
		return false;
	}
	tx->near = f ? f->near : NULL;
	if (qp->transport == TRANSPORT_UD)
		datagram_address(qp, w, tx);
	if (f)
		flow_sent(qp, batch, f, w, tx->packet.length);
	step(r, w);
	return true;
}

/* Fails a work request that could not be sent, when those before it are complete. */
static void settle_head(struct qp *qp)
{
	struct wqe *w = sq_at(&qp->sq, qp->sq.head);

	if (qp->sq.head != qp->sq.tail && w->state == WQE_ERROR && unreliable_may_send(qp))
		fail_head(qp, w->status);
}

/* Makes packets. True: more are to be made, or requests needed none: run again to complete them. */
bool unreliable_run(struct qp *qp, struct tx_batch *batch)
{
	unreliable_sent(qp);
	settle_head(qp);
	qp->req.held = NULL;
	qp->req.window = batch->budget;
	while (qp->req.wqe != qp->sq.tail && unreliable_may_send(qp) && unreliable_send_next(qp, batch))
		;
	return batch->packets || qp->sq.head != qp->req.wqe;
}

bool unreliable_can_run(const struct qp *qp)
{
	const struct requester *r = &qp->req;
	const struct wqe *w = sq_at(&qp->sq, r->wqe);

	if (qp->sq.head != r->wqe)
		return true;
	return r->wqe != qp->sq.tail && (!r->held || r->held->for_room) && unreliable_may_send(qp) &&
	       (w->state != WQE_POSTED || qp->state != IBV_QPS_SQD);
}
