/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/responder.h"

#include "base/trace.h"
#include "engine/cause.h"
#include "engine/complete.h"
#include "engine/kept.h"
#include "engine/owed.h"

/* The region of a READ, if it may still be read. */
static struct mr *read_region(struct qp *qp, const struct response *s, uint32_t length, char **at)
{
	struct mr *mr;

	if (is_xrc_target(qp)) {
		qp->xrc->srq = srq_enter(qp->hca, s->srqn, &qp->xrc->domain);
		if (!qp->xrc->srq)
			return NULL;
	}
	mr = remote_region(qp, s->rkey, s->va, length, IBV_ACCESS_REMOTE_READ, at);
	leave_srq(qp);
	return mr;
}

void responder_unreadable(struct qp *qp, psn_t psn)
{
	if (qp->resp.response_count) {
		const struct response *s = response_at(&qp->resp, 0);

		cause_access(qp, s->rkey, s->va, s->left, IBV_ACCESS_REMOTE_READ);
	}
	qp->resp.nak = NAK_REMOTE_ACCESS;
	qp->resp.nak_psn = psn;
	responder_refused(&qp->resp, REFUSED_OTHER);
	fail_with_event(qp, IBV_EVENT_QP_ACCESS_ERR);
}

/* A response acknowledges all requests up to its own. */
static void retire_response(struct responder *r, const struct response *s)
{
	psn_t end = s->kind == RESPOND_ATOMIC ? psn_add(s->psn, 1) : s->psn;

	r->response_head = (r->response_head + 1) % r->response_size;
	r->response_count--;
	if (psn_equal(end, r->expected))
		responder_owes_nothing(r);
}

/* Handles a READ whose region is gone. If it was answered before, that is no reason to fail the QP: the duplicate may
 * have come late, after ibv_dereg_mr(3). A peer that still waits for the data gets the NAK; any other ignores it. */
static bool read_failed(struct qp *qp, const struct response *s)
{
	if (!s->again) {
		responder_unreadable(qp, s->psn);
		return false;
	}
	if (!qp->resp.nak) { /* a queued NAK is about a request that the peer sends now */
		qp->resp.nak = NAK_REMOTE_ACCESS;
		qp->resp.nak_psn = s->psn;
	}
	retire_response(&qp->resp, s);
	return false;
}

/* Makes one packet of the response to a READ. False: the tx batch is full, or the region is gone and a NAK follows. */
static bool read_packet(struct qp *qp, struct tx_batch *batch, struct response *s)
{
	uint32_t length = min_of(s->left, s->mtu);
	bool last = length == s->left;
	const char *kept = NULL;
	uint8_t opcode = last ? (s->started ? OP_READ_RESPONSE_LAST : OP_READ_RESPONSE_ONLY)
			      : (s->started ? OP_READ_RESPONSE_MIDDLE : OP_READ_RESPONSE_FIRST);
	struct mr *mr = NULL;
	struct tx *tx;
	char *at;

	if (batch->packets >= BATCH_TRAINS || !batch_has_room(batch, length, false))
		return false;
	if (unlikely(qp->resp.repairs)) {
		if (!s->started)
			kept_take(qp, s);
		kept = kept_at(qp, s->psn, length);
	}
	if (length && !kept) {
		mr = read_region(qp, s, length, &at);
		if (!mr)
			return read_failed(qp, s);
	}
	tx = batch_packet(qp, batch, opcode | qp->transport, s->psn);
	if (!tx) {
		if (mr)
			mr_put(mr);
		return false;
	}
	tx->packet.syndrome = SYNDROME_ACK | SYNDROME_NO_CREDITS;
	tx->packet.msn = s->msn;
	if (kept)
		batch_bytes(batch, tx, kept, length);
	else if (mr && !batch_region(batch, tx, mr, at, length, s->left - length)) {
		batch_drop_last(batch, tx);
		return read_failed(qp, s);
	}
	trace(execute, qp->base.qp_num, s->psn.v, opcode, s->va, length, 0);
	trace(build, qp->base.qp_num, tx->packet.dest_qpn, s->psn.v, tx->packet.opcode, length, 0);
	s->started = true;
	s->va += length;
	s->left -= length;
	s->psn = psn_add(s->psn, 1);
	return true;
}

static bool atomic_packet(struct qp *qp, struct tx_batch *batch, struct response *s)
{
	uint8_t opcode = OP_ATOMIC_ACKNOWLEDGE | qp->transport;
	struct tx *tx = batch_has_room(batch, 0, true) ? batch_packet(qp, batch, opcode, s->psn) : NULL;

	if (!tx)
		return false;
	tx->packet.syndrome = SYNDROME_ACK | SYNDROME_NO_CREDITS;
	tx->packet.msn = s->msn;
	tx->packet.original = s->value;
	trace(build, qp->base.qp_num, tx->packet.dest_qpn, s->psn.v, tx->packet.opcode, 0, 0);
	return true;
}

static __attribute__((noinline)) bool send_responses(struct qp *qp, struct tx_batch *batch)
{
	struct responder *r = &qp->resp;

	if (unlikely(r->spent) && !batch->packets)
		kept_read_free_all(&r->spent);
	if (unlikely(r->repair_owed) && !kept_run(qp, batch))
		return true;
	while (r->response_count) {
		struct response *s = response_at(r, 0);
		bool atomic = s->kind == RESPOND_ATOMIC;

		if (!(atomic ? atomic_packet(qp, batch, s) : read_packet(qp, batch, s)))
			return r->response_count; /* 0 if the QP failed */
		if (atomic || s->left == 0)
			retire_response(r, s);
	}
	return false;
}

bool responder_run(struct qp *qp, struct tx_batch *batch)
{
	const struct responder *r = &qp->resp;

	return (r->response_count || r->repairs) && send_responses(qp, batch);
}
