/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting the fast path (engine.h), inline: for whoever makes a record of a packet there and then (loop/straight.c), so
 * that its values go from the work request to the record in registers, and are nowhere else in between. With qp->lock.
 */
#ifndef UROCE_STRAIGHT_H
#define UROCE_STRAIGHT_H

#include <string.h>

#include "base/trace.h"
#include "engine/internal.h"

#define STRAIGHT_INLINE static inline __attribute__((always_inline))

/* Whether the QP is in a state for it. */
STRAIGHT_INLINE bool engine_is_straight(const struct qp *qp)
{
	const struct requester *r = &qp->req;
	const struct responder *s = &qp->resp;

	/* nothing waits at the cursor. Who traces wants to see all */
	if (unlikely(qp->state != IBV_QPS_RTS || r->wqe != qp->sq.tail || r->packet || trace_on))
		return false;
	if (qp->transport == TRANSPORT_UD)
		return qp->sq.head == qp->sq.tail;
	/* nothing is to be sent again, nothing has to leave first */
	return likely(qp->transport == TRANSPORT_RC && requester_is_plain(r) && r->next.v == r->high.v &&
		      r->flight < r->window / 2 && !s->response_count && !s->owes);
}

STRAIGHT_INLINE bool straight_fits(const struct qp *qp, const struct ibv_send_wr *wr)
{
	const struct sq *sq = &qp->sq;

	/* relaxed: see cq.c reclaim() */
	return likely((unsigned)wr->num_sge <= sq->max_sge &&
		      sq->tail - atomic_load_explicit(&sq->reclaimed, memory_order_relaxed) < sq->depth);
}

/* Of one piece, the payload. False: it is not memory of the domain, or takes more than a copy. */
STRAIGHT_INLINE bool straight_copy(struct qp *qp, const struct ibv_sge *sge, char *to)
{
	struct mr *mr = sge_region_again(qp->hca, &qp->sq.last, qp->pd, sge, sge->length, 0);
	bool ok;

	if (unlikely(!mr))
		return false;
	ok = !mr_is_indirect(mr) && fault_load(to, mr_at(mr, sge->addr), sge->length);
	mr_put(mr);
	return likely(ok);
}

/* What is most common: it has a short way of its own through the following. */
STRAIGHT_INLINE bool straight_is_common(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return likely(wr->opcode == IBV_WR_SEND && wr->num_sge == 1 && wr->sg_list->length - 1 < REFER_MAPPED - 1 &&
		      wr->sg_list->length <= qp->req.mtu);
}

/* The payload, or where it lies, to where the packet's is to be, and what is said of it in the WQE, whose opcode and
 * flags are there. Returns how many pieces lie elsewhere; less than 0: it is not for the fast path. */
int straight_put(struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr, char *payload);

/* The same of what is common. */
STRAIGHT_INLINE int straight_put_common(struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr, char *payload)
{
	const struct ibv_sge *sge = wr->sg_list;

	w->length = sge->length;
	w->packets = 1;
	w->by_reference = false;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (unlikely(sge->length > qp->sq.max_inline))
			return -1;
		w->num_sge = 0;
		memcpy(w->sge, (const void *)(uintptr_t)sge->addr, sge->length);
		memcpy(payload, (const void *)(uintptr_t)sge->addr, sge->length);
		return 0;
	}
	w->num_sge = 1;
	w->sge[0] = *sge;
	return straight_copy(qp, sge, payload) ? 0 : -1;
}

/* Posts one work request and makes its packet, which has to be sent at once: values to *p, payload (or where it lies)
 * to `payload`, with room for STRAIGHT_MOST bytes. False: nothing has been posted. `is_common`: a constant. */
STRAIGHT_INLINE bool engine_post_straight(struct qp *qp, const struct ibv_send_wr *wr, struct packet *p, char *payload,
					  bool is_common)
{
	struct requester *r = &qp->req;
	struct sq *sq = &qp->sq;
	struct wqe *w = sq_at(sq, sq->tail);
	uint32_t packets;
	int pieces;

	if (unlikely(!straight_fits(qp, wr) || (wr->send_flags & IBV_SEND_FENCE && r->rd_count)))
		return false;
	w->opcode = wr->opcode;
	w->flags = wr->send_flags;
	p->va = 0;
	p->rkey = 0;
	if (is_common || wr->opcode == IBV_WR_SEND) {
		p->opcode = TRANSPORT_RC | OP_SEND_ONLY;
	} else if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
		p->opcode = TRANSPORT_RC | OP_SEND_ONLY_IMM;
	} else if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		p->opcode = TRANSPORT_RC | OP_WRITE_ONLY_IMM;
		p->va = w->remote_addr = wr->wr.rdma.remote_addr;
		p->rkey = w->rkey = wr->wr.rdma.rkey;
	} else {
		return false;
	}
	pieces = is_common ? straight_put_common(qp, w, wr, payload) : straight_put(qp, w, wr, payload);
	if (unlikely(pieces < 0))
		return false;
	w->wr_id = wr->wr_id;
	w->psn = r->next;
	w->imm = wr->imm_data;
	w->state = WQE_PROCESSING;

	p->pieces = is_common ? 0 : (uint32_t)pieces;
	p->length = p->dma_length = w->length;
	p->solicited = wr->send_flags & IBV_SEND_SOLICITED;
	p->becn = false;
	p->ack_request = true; /* as asks() in requester.c has it */
	p->dest_qpn = qp->attr.dest_qp_num;
	p->psn = r->next;
	p->imm = wr->imm_data;
	p->acknowledges = false;
	p->acknowledged = psn(0);
	if (responder_owes_ack(&qp->resp, false))
		responder_give_ack(&qp->resp, p);

	r->wqe = ++sq->tail;
	packets = is_common ? 1 : w->packets;
	r->flight += p->length + packets * PACKET_OVERHEAD; /* wqe_charge() */
	r->next = r->high = r->asked = psn_add(p->psn, packets);
	r->unasked = 0;
	r->peer_spoke = false;
	return true;
}

/* Of what has been posted so: whether the transport timer has to be begun, and does that. */
STRAIGHT_INLINE bool engine_straight_is_timed(const struct qp *qp)
{
	return likely(qp->req.timeout_at != NEVER);
}
STRAIGHT_INLINE void engine_time_straight(struct qp *qp, uint64_t now) REQUIRES(qp->lock)
{
	note_sent(qp, now);
}

/* Datagrams: to whom one goes: a local peer, who has granted enough and needs to be asked nothing; NULL: the usual way
 * knows more. flow.c. */
struct flow *engine_flow_near(struct qp *qp, const struct ibv_send_wr *wr, uint64_t now) REQUIRES(qp->lock);

/* The payload of one; in all, `most` bytes. straight.c has the loop. False: as above. */
bool straight_gather(struct qp *qp, const struct ibv_send_wr *wr, uint32_t most, uint32_t *length, char *to);

/* The same for one, without a WQE, as nothing is left to be done of it, though it takes a place in the queue, as all
 * do. */
STRAIGHT_INLINE bool engine_post_datagram(struct qp *qp, const struct ibv_send_wr *wr, struct flow *to, uint64_t now,
					  struct packet *p, char *payload)
{
	const struct ibv_sge *sge = wr->sg_list;
	struct requester *r = &qp->req;
	uint32_t flags = wr->send_flags, most = min_of(r->mtu, (uint32_t)STRAIGHT_MOST), length;

	if (likely(wr->opcode == IBV_WR_SEND))
		p->opcode = TRANSPORT_UD | OP_SEND_ONLY;
	else if (wr->opcode == IBV_WR_SEND_WITH_IMM)
		p->opcode = TRANSPORT_UD | OP_SEND_ONLY_IMM;
	else
		return false;
	if (unlikely(!straight_fits(qp, wr)))
		return false;
	if (flags & IBV_SEND_INLINE)
		most = min_of(most, qp->sq.max_inline);
	if (unlikely(wr->num_sge != 1 || !sge->length)) {
		if (!straight_gather(qp, wr, most, &length, payload))
			return false;
		p->length = length;
	} else {
		p->length = sge->length;
		if (unlikely(p->length > most))
			return false;
		if (flags & IBV_SEND_INLINE)
			memcpy(payload, (const void *)(uintptr_t)sge->addr, p->length);
		else if (!straight_copy(qp, sge, payload))
			return false;
	}
	p->pieces = 0;
	p->solicited = flags & IBV_SEND_SOLICITED;
	p->becn = p->ack_request = p->acknowledges = false;
	p->acknowledged = psn(0);
	p->dest_qpn = to->qpn;
	p->psn = r->next;
	p->imm = wr->imm_data;
	p->src_qpn = qp->base.qp_num;
	p->qkey = datagram_qkey(qp, wr->wr.ud.remote_qkey);

	r->wqe = ++qp->sq.tail;
	r->next = r->una = r->high = psn_add(r->next, 1);
	flow_count(to, p->length, true, now);
	return true;
}

/* All that have been posted so are sent, `wr` first: they are complete. Before anything else is done with the QP. */
void engine_sent_datagrams(struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock);

#endif
