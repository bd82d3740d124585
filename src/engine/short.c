/* SPDX-License-Identifier: BSD-2-Clause */
/* the fast path of small SENDs to the network (engine.h): what post.c, requester.c, tx_batch.c and responder.c come to when
 * nothing else is to be seen to. */
#include "engine/straight.h"

static struct packet packet_to_peer(const struct qp *qp, uint8_t opcode, psn_t psn)
{
	return (struct packet){
		.opcode = opcode,
		.migrated = true, /* as in tx_batch.c */
		.pkey = PKEY_DEFAULT,
		.dest_qpn = qp->attr.dest_qp_num,
		.psn = psn,
	};
}

/* Nothing waits, is to be sent again, or has to leave first; and no answer is bound to come for which small requests
 * would wait. */
static bool has_nothing_else(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *r = &qp->req;
	const struct responder *s = &qp->resp;

	return qp->state == IBV_QPS_RTS && qp->transport == TRANSPORT_RC && !r->manner && r->wqe == qp->sq.tail &&
	       !r->packet && r->next.v == r->high.v && !engine_awaits_answer(qp) && !s->response_count && !s->owes &&
	       !qp->answers_first && !trace_on;
}

bool engine_post_is_short(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return has_nothing_else(qp) && qp->req.flight + SHORT_MOST + PACKET_OVERHEAD <= qp->req.window &&
	       straight_is_common(qp, wr) && wr->sg_list->length >= SHORT_LEAST && wr->sg_list->length <= SHORT_MOST &&
	       !(wr->send_flags & IBV_SEND_FENCE) && straight_fits(qp, wr);
}

uint32_t engine_post_short(struct qp *qp, const struct ibv_send_wr *wr, uint64_t now, uint32_t budget, char *payload,
			   struct packet packet[2])
{
	struct requester *r = &qp->req;
	struct responder *s = &qp->resp;
	struct wqe *w = sq_at(&qp->sq, qp->sq.tail);
	uint32_t count = 0;

	w->opcode = wr->opcode;
	w->flags = wr->send_flags;
	if (unlikely(straight_put_common(qp, w, wr, payload)))
		return 0;
	w->wr_id = wr->wr_id;
	w->psn = r->next;
	w->imm = wr->imm_data;
	w->state = WQE_PROCESSING;
	qp->sq.tail++;

	packet[count] = packet_to_peer(qp, TRANSPORT_RC | OP_SEND_ONLY, r->next);
	packet[count].length = w->length;
	packet[count].solicited = w->flags & IBV_SEND_SOLICITED;
	packet[count++].ack_request = requester_sends_only(qp, w, now, budget);
	if (responder_owes_ack(s, false)) {
		packet[count] = packet_to_peer(qp, TRANSPORT_RC | OP_ACKNOWLEDGE, s->ack_psn);
		packet[count].syndrome = SYNDROME_ACK | SYNDROME_NO_CREDITS;
		packet[count++].msn = s->msn;
		responder_owes_nothing(s);
	}
	return count;
}
