/* SPDX-License-Identifier: BSD-2-Clause */
/* What the responder owes its peer: acknowledgements and NAKs, until acknowledge.c makes packets of them. With
 * qp->lock. */
#ifndef UROCE_ENGINE_OWED_H
#define UROCE_ENGINE_OWED_H

#include <assert.h>

#include "base/trace.h"
#include "engine/tuned.h"
#include "object/early.h"
#include "object/qp.h"

/* After the fast path of engine_receive(): whether the QP has nothing to send except perhaps an ACK, which may wait
 * to travel with a request. */
static inline bool engine_owes_ack_alone(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *r = &qp->req;
	const struct responder *s = &qp->resp;

	return r->wqe == qp->sq.tail && !r->probe_wanted && !r->changing && !s->response_count && !s->owes &&
	       s->unacked < ACK_PROMPT;
}

/* An acknowledgement of all that was received leaves. */
static inline void responder_owes_nothing(struct responder *r)
{
	r->ack = ACK_NONE;
	r->unacked = 0;
}

/* Whether an ACK is to leave now; `delay`: it may wait for an answer to carry it. What was asked for at the end of a
 * message waits, when the next message has begun, for the end of that one: then one ACK does for both. More packets are
 * bound to come, and with them that end, ACK_EVERY, or an urgent one. */
static inline bool responder_owes_ack(const struct responder *r, bool delay)
{
	if (r->ack == ACK_NONE || r->unacked >= ACK_EVERY)
		return r->ack;
	return r->ack >= ACK_ASKED && (r->ack == ACK_URGENT || r->inbound == INBOUND_NONE) &&
	       (!delay || r->unacked >= ACK_PROMPT);
}

/* A request that leaves, between local peers, acknowledges what is due to be acknowledged. */
static inline void responder_give_ack(struct qp *qp, struct packet *request)
{
	struct responder *r = &qp->resp;

	trace(acknowledge, qp->base.qp_num, qp->attr.dest_qp_num, r->ack_psn.v, SYNDROME_ACK, r->msn, 0);
	request->acknowledges = true;
	request->acknowledged = r->ack_psn;
	responder_owes_nothing(r);
}

/* A packet is refused. Another refusal of what is missing leaves a gap as it is, until responder_drop_early(). */
static inline void responder_refused(struct responder *r, enum refused what)
{
	assert(what != REFUSED_NONE); /* that is responder_took()'s to say */
	if (what == REFUSED_GAP || r->refused == REFUSED_NONE)
		r->refused = (uint8_t)what;
}

/* A request has been taken, which uses up so many PSNs; `flags`: of its opcode. */
static inline __attribute__((always_inline)) void responder_took(struct responder *r, const struct packet *p,
								 uint32_t packets, uint32_t flags)
{
	uint8_t ack = !p->ack_request ? ACK_OWED : flags & IS_LAST ? ACK_ASKED : ACK_URGENT;

	r->expected = psn_add(r->expected, packets);
	if (!(flags & (IS_READ | IS_ATOMIC_WRITE | IS_ATOMIC)))
		r->ack_psn = psn_add(r->expected, -1u);
	if (flags & IS_LAST)
		r->msn = (r->msn + 1) & PSN_MASK;
	r->refused = REFUSED_NONE;
	r->nak = 0;
	r->starves = false;
	r->look_at = 0;
	r->unacked++;
	r->ack = max_of(r->ack, ack);
}

/* Packets that came before their turn are dropped: the peer will send all of them again. */
void responder_drop_early(struct qp *qp);

#endif
