/* SPDX-License-Identifier: BSD-2-Clause */
/* The fast path out (fast_send.h): its parts that are not inline, and small SENDs by udp. An ordinary request goes
 * through post.c, requester.c and tx_batch.c; on an idle QP the fast path has the same effect. */
#include <string.h>

#include "engine/fast_send.h"

#include "engine/requester.h"

bool fast_gather(struct qp *qp, const struct ibv_send_wr *wr, uint32_t most, uint32_t *length, char *to)
{
	*length = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > most - *length)
			return false;
		if (!sge->length) /* as in post.c */
			continue;
		if (wr->send_flags & IBV_SEND_INLINE)
			memcpy(to + *length, (const void *)(uintptr_t)sge->addr, sge->length);
		else if (!fast_copy(qp, sge, to + *length))
			return false;
		*length += sge->length;
	}
	return true;
}

void fast_trace_send(const struct qp *qp, const struct wqe *w)
{
	static const uint8_t opcode[] = {
		[IBV_WR_SEND] = OP_SEND_ONLY,
		[IBV_WR_SEND_WITH_IMM] = OP_SEND_ONLY_IMM,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = OP_WRITE_ONLY_IMM,
	};
	uint32_t qpn = qp->base.qp_num, position = qp->sq.tail;

	trace(post_send, qpn, position, w->wr_id, w->opcode, w->length,
	      w->flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0));
	trace(pickup, qpn, position, w->psn.v, w->packets, w->opcode, 0);
	trace(build, qpn, qp->attr.dest_qp_num, w->psn.v, opcode[w->opcode], w->length, position);
}

/* Writes references to the payload: onesided.c. < 0: not readable for the peer. */
static int refer(struct qp *qp, struct wqe *w, char *payload)
{
	int pieces = 0;

	if (w->num_sge * sizeof(struct packet_piece) > FAST_RING_MOST ||
	    !sge_allowed(qp->hca, qp->pd, w->sge, w->num_sge, 0))
		return -1;
	for (uint32_t i = 0; i < w->num_sge; i++) {
		struct packet_piece piece = {w->sge[i].addr, w->sge[i].length, w->sge[i].lkey ^ qp->hca->keys.lkey};

		if (piece.length)
			memcpy(payload + pieces++ * sizeof(piece), &piece, sizeof(piece));
	}
	w->by_reference = true;
	w->packets = wqe_packets(qp, w);
	return pieces;
}

int fast_put(struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr, char *payload)
{
	uint32_t most = min_of(qp->req.mtu, (uint32_t)FAST_RING_MOST);
	uint64_t length = posted_length(wr);

	w->num_sge = 0;
	w->packets = 1;
	w->by_reference = false;
	w->length = (uint32_t)length;
	if (length > REFERENCE_CHUNK)
		return -1;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (!fast_gather(qp, wr, min_of(most, (uint32_t)qp->sq.fast_inline), &w->length, payload))
			return -1;
		memcpy(w->sge, payload, w->length);
		return 0;
	}
	for (int i = 0; i < wr->num_sge; i++)
		w->sge[i] = wr->sg_list[i];
	w->num_sge = (uint8_t)wr->num_sge;
	if (onesided_refers(qp, w))
		return refer(qp, w, payload);
	return fast_gather(qp, wr, most, &w->length, payload) ? 0 : -1;
}

void engine_fast_datagrams_sent(struct qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t position = qp->sq.head;

	qp->sq.head = qp->sq.tail;
	complete_posted(qp, wr, position, qp->sq.tail - position, (uint32_t)posted_length(wr));
	if (unlikely(qp->cq_lost))
		settle_overrun(qp);
}

/* ---- by udp ---- */

/* True for a request that may stand in a train of the fast path. */
static inline bool fits_train(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return fast_is_common(qp, wr) && wr->sg_list->length >= FAST_UDP_LEAST &&
	       wr->sg_list->length <= FAST_UDP_MOST && !(wr->send_flags & IBV_SEND_FENCE) && fast_fits(qp, wr);
}

bool engine_fast_send_fits(const struct qp *qp, const struct ibv_send_wr *wr)
{
	/* small requests wait for an answer that is bound to come, to become a train */
	return !engine_awaits_answer(qp) && !qp->answers_first &&
	       qp->req.flight + FAST_UDP_MOST + PACKET_OVERHEAD <= qp->req.window && fits_train(qp, wr);
}

/* Puts a request into the queue, with its packet. False: the memory cannot be read this way. */
static inline bool put_in_train(struct qp *qp, const struct ibv_send_wr *wr, uint32_t number, char *payload,
				struct packet *p)
{
	struct wqe *w = sq_at(&qp->sq, qp->sq.tail);

	w->opcode = wr->opcode;
	w->flags = wr->send_flags;
	if (unlikely(fast_put_common(qp, w, wr, payload)))
		return false;
	w->wr_id = wr->wr_id;
	w->psn = psn_add(qp->req.next, number);
	w->imm = wr->imm_data;
	w->state = WQE_PROCESSING;
	if (hooks_any())
		fast_trace_send(qp, w);
	qp->sq.tail++;

	packet_begin(p, TRANSPORT_RC | OP_SEND_ONLY, qp->attr.dest_qp_num, w->psn);
	p->length = w->length;
	p->solicited = wr->send_flags & IBV_SEND_SOLICITED;
	return true;
}

/* Packets of this length that the window has room for, `most` at most. */
static uint32_t fast_room(const struct requester *r, uint32_t length, uint32_t most)
{
	most = min_of(most, SELECTIVE_PSNS - 1 - (uint32_t)psn_diff(r->next, r->una));
	return min_of(most, (r->window - min_of(r->flight, r->window)) / (length + PACKET_OVERHEAD));
}

uint32_t engine_fast_send_udp(struct qp *qp, struct ibv_send_wr **list, uint64_t now, uint32_t budget, uint32_t most,
			      char *payload, struct packet *packet)
{
	struct ibv_send_wr *wr = *list;
	struct responder *s = &qp->resp;
	uint32_t count = 0, length = wr->sg_list->length;

	requester_limit(&qp->req, budget);
	if (unlikely(wr->next))
		most = fast_room(&qp->req, length, min_of(most, (uint32_t)FAST_UDP_LIST));
	do {
		if (unlikely(!put_in_train(qp, wr, count, payload, &packet[count])))
			break;
		payload += packet_bytes(packet);
		count++;
		wr = wr->next;
	} while (unlikely(wr) && count < most && fits_train(qp, wr) && wr->sg_list->length == length);
	if (unlikely(!count))
		return 0;
	*list = wr;
	requester_sends_only(qp, packet, count, now);
	if (responder_owes_ack(s, false)) {
		packet_begin(&packet[count], TRANSPORT_RC | OP_ACKNOWLEDGE, qp->attr.dest_qp_num, s->ack_psn);
		packet[count].syndrome = SYNDROME_ACK | SYNDROME_NO_CREDITS;
		packet[count++].msn = s->msn;
		trace(acknowledge, qp->base.qp_num, qp->attr.dest_qp_num, s->ack_psn.v, SYNDROME_ACK, s->msn, 0);
		responder_owes_nothing(s);
	}
	return count;
}
