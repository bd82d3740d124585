/* SPDX-License-Identifier: BSD-2-Clause */
/* Acknowledgements and NAKs that the responder owes its peer, until acknowledge.c makes packets of them. With
 * qp->lock. */
#ifndef UROCE_ENGINE_OWED_H
#define UROCE_ENGINE_OWED_H

#include <assert.h>

#include "base/trace.h"
#include "engine/tuned.h"
#include "object/early.h"
#include "object/qp.h"

/* True if the QP has nothing to send except perhaps an ACK, which may wait. After the fast path of engine_receive(). */
static inline bool engine_owes_ack_alone(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *r = &qp->req;
	const struct responder *s = &qp->resp;

	return r->wqe == qp->sq.tail && !r->probe_wanted && !r->changing && !s->response_count && !s->owes &&
	       s->unacked < ACK_PROMPT;
}

/* Notes that an acknowledgement of everything received leaves. */
static inline void responder_owes_nothing(struct responder *r)
{
	r->ack = ACK_NONE;
	r->unacked = 0;
}

/* True if an ACK is to leave now; `delay`: the ACK may wait for an answer to carry it. A request for an ACK at the end
 * of a message waits, when the next message has begun, for its end: one ACK serves both. More packets are bound to
 * come, and with them that end, ACK_EVERY, or an urgent one. */
static inline bool responder_owes_ack(const struct responder *r, bool delay)
{
	if (r->ack == ACK_NONE || r->unacked >= ACK_EVERY)
		return r->ack;
	return r->ack >= ACK_ASKED && (r->ack == ACK_URGENT || r->inbound == INBOUND_NONE) &&
	       (!delay || r->unacked >= ACK_PROMPT);
}

/* Notes that a packet is refused. Another refusal while a gap is open leaves the gap as it is, until
 * responder_drop_early(). */
static inline void responder_refused(struct responder *r, enum refused what)
{
	assert(what != REFUSED_NONE); /* only responder_took() sets that */
	if (what == REFUSED_GAP || r->refused == REFUSED_NONE)
		r->refused = (uint8_t)what;
}

/* Notes that a request has been taken, which uses `packets` PSNs; `flags`: of its opcode. */
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

/* Drops packets that came before their turn: the peer will send all of them again. */
void responder_drop_early(struct qp *qp);

#endif
