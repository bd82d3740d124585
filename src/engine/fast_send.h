/* SPDX-License-Identifier: BSD-2-Clause */
/* The fast path out (engine.h), inline: port/post.c makes the record of a packet from it, so that values go from the
 * work request to the record in registers. So a SEND is made in four places: by request.c for the queue, and here once
 * for each lane (ring, datagram; udp in fast_send.c), which differ in what the packet says and where its bytes go. With
 * qp->lock. */
#ifndef UROCE_FAST_SEND_H
#define UROCE_FAST_SEND_H

#include <string.h>

#include "base/trace.h"
#include "engine/complete.h"
#include "engine/cursor.h"
#include "engine/engine.h"
#include "engine/flow.h"
#include "engine/onesided.h"
#include "engine/owed.h"
#include "engine/timers.h"

#define FAST_INLINE static inline __attribute__((always_inline))

/* True if the QP is idle for a new request: all posted requests are sent, none is to be sent again, and nothing has to
 * leave first. */
FAST_INLINE bool qp_is_idle(const struct qp *qp)
{
	const struct requester *r = &qp->req;
	const struct responder *s = &qp->resp;

	uint32_t busy = (r->wqe ^ qp->sq.tail) | r->packet | requester_waits(r) | (r->next.v ^ r->high.v) |
			s->response_count | s->owes;

	return likely(!busy); /* one branch */
}

FAST_INLINE bool fast_fits(const struct qp *qp, const struct ibv_send_wr *wr)
{
	const struct sq *sq = &qp->sq;

	/* relaxed: see cq.c reclaim() */
	return likely(sges_fit(wr->sg_list, wr->num_sge, sq->max_sge) &&
		      sq->tail - atomic_load_explicit(&sq->reclaimed, memory_order_relaxed) < sq->depth);
}

/* Copies the payload of one piece. False: not memory of the domain, or not one copy. */
FAST_INLINE bool fast_copy(struct qp *qp, const struct ibv_sge *sge, char *to)
{
	struct mr *mr = sge_region_again(qp->hca, &qp->sq.last, qp->pd, sge, sge->length, 0);
	bool ok;

	if (unlikely(!mr))
		return false;
	ok = !mr_is_indirect(mr) && fault_load(to, mr_at(mr, sge->addr), sge->length);
	mr_put(mr);
	return likely(ok);
}

/* True for the most common requests, which have a short way of their own below. */
FAST_INLINE bool fast_is_common(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return likely(wr->opcode == IBV_WR_SEND && wr->num_sge == 1 && wr->sg_list &&
		      wr->sg_list->length - 1 < REFER_MAPPED - 1 && wr->sg_list->length <= qp->req.mtu);
}

/* Writes the payload, or references to it, to `payload`, and describes it in the WQE, whose opcode and flags are set.
 * Returns the number of pieces referred to; < 0: not for the fast path. */
int fast_put(struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr, char *payload);

/* fast_put() for a common request. */
FAST_INLINE int fast_put_common(struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr, char *payload)
{
	const struct ibv_sge *sge = wr->sg_list;

	w->length = sge->length;
	w->packets = 1;
	w->by_reference = false;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (unlikely(sge->length > qp->sq.fast_inline))
			return -1;
		w->num_sge = 0;
		memcpy(w->sge, (const void *)(uintptr_t)sge->addr, sge->length);
		memcpy(payload, (const void *)(uintptr_t)sge->addr, sge->length);
		return 0;
	}
	w->num_sge = 1;
	w->sge[0] = *sge;
	return fast_copy(qp, sge, payload) ? 0 : -1;
}

/* Traces the steps of a work request that leaves at once: w is at sq.tail. */
void fast_trace_send(const struct qp *qp, const struct wqe *w);

/* Posts one work request and makes its packet, which must be sent at once: values to *p, payload (or references) to
 * `payload`, with room for FAST_RING_MOST bytes. False: nothing has been posted. `is_common`: a constant. */
FAST_INLINE bool engine_fast_send(struct qp *qp, const struct ibv_send_wr *wr, struct packet *p, char *payload,
				  bool is_common)
{
	struct requester *r = &qp->req;
	struct sq *sq = &qp->sq;
	struct wqe *w = sq_at(sq, sq->tail);
	uint32_t packets;
	int pieces;

	if (unlikely(!fast_fits(qp, wr) || r->flight >= r->window / 2 ||
		     (wr->send_flags & IBV_SEND_FENCE && r->rd_count)))
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
	pieces = is_common ? fast_put_common(qp, w, wr, payload) : fast_put(qp, w, wr, payload);
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

	if (hooks_any())
		fast_trace_send(qp, w);
	sq->tail++;
	packets = is_common ? 1 : w->packets;
	requester_sent(r, packets, p->length + packets * PACKET_OVERHEAD); /* wqe_charge() */
	requester_sent_whole(qp);
	requester_asked(r, r->next);
	return true;
}

/* True if the transport timer runs; engine_fast_time() starts it. After engine_fast_send(). */
FAST_INLINE bool engine_fast_is_timed(const struct qp *qp)
{
	return likely(qp->req.timeout_at != NEVER);
}
FAST_INLINE void engine_fast_time(struct qp *qp, uint64_t now) REQUIRES(qp->lock)
{
	note_sent(qp, now);
}

/* The receiver of a datagram, if it is a local peer that has granted enough credits and needs no credit request; NULL:
 * the queue decides. flow.c. */
struct flow *engine_flow_near(struct qp *qp, const struct ibv_send_wr *wr, uint64_t now) REQUIRES(qp->lock);
/* Copies the payload of a datagram, `most` bytes at most, to `to`. False: it is longer, or not memory of the domain. In
 * fast_send.c. */
bool fast_gather(struct qp *qp, const struct ibv_send_wr *wr, uint32_t most, uint32_t *length, char *to);

/* Posts one datagram without a WQE, as nothing is left to be done; it takes a place in the queue, as all do. */
FAST_INLINE bool engine_fast_datagram(struct qp *qp, const struct ibv_send_wr *wr, struct flow *to, uint64_t now,
				      struct packet *p, char *payload)
{
	const struct ibv_sge *sge = wr->sg_list;
	struct requester *r = &qp->req;
	uint32_t flags = wr->send_flags, most = min_of(r->mtu, (uint32_t)FAST_RING_MOST), length;

	if (likely(wr->opcode == IBV_WR_SEND))
		p->opcode = TRANSPORT_UD | OP_SEND_ONLY;
	else if (wr->opcode == IBV_WR_SEND_WITH_IMM)
		p->opcode = TRANSPORT_UD | OP_SEND_ONLY_IMM;
	else
		return false;
	if (unlikely(!fast_fits(qp, wr)))
		return false;
	if (flags & IBV_SEND_INLINE)
		most = min_of(most, (uint32_t)qp->sq.fast_inline);
	if (unlikely(wr->num_sge != 1 || !sge->length)) {
		if (!fast_gather(qp, wr, most, &length, payload))
			return false;
		p->length = length;
	} else {
		p->length = sge->length;
		if (unlikely(p->length > most))
			return false;
		if (flags & IBV_SEND_INLINE)
			memcpy(payload, (const void *)(uintptr_t)sge->addr, p->length);
		else if (!fast_copy(qp, sge, payload))
			return false;
	}
	p->pieces = 0;
	p->solicited = flags & IBV_SEND_SOLICITED;
	p->becn = p->ack_request = false;
	p->dest_qpn = to->qpn;
	p->psn = r->next;
	p->imm = wr->imm_data;
	p->src_qpn = qp->base.qp_num;
	p->qkey = datagram_qkey(qp, wr->wr.ud.remote_qkey);

	trace(post_send, qp->base.qp_num, qp->sq.tail, wr->wr_id, wr->opcode, p->length,
	      flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0));
	trace(build, qp->base.qp_num, p->dest_qpn, p->psn.v, p->opcode, p->length, qp->sq.tail);
	r->wqe = ++qp->sq.tail;
	r->next = r->una = r->high = psn_add(r->next, 1);
	flow_count(to, p->length, true, now);
	return true;
}

/* True if engine_fast_send_udp() takes the request, on an idle QP. */
bool engine_fast_send_fits(const struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock);
/* Posts such a request and those behind it in the list that are alike, `most` at most, and makes their packets, and
 * that of an ACK if one is due. All must be sent at once, as one train: `packet` has room for FAST_UDP_LIST + 1. The
 * payload of the first is copied to `payload`, those of the others each packet_bytes() further. `budget`: as in a tx
 * batch. *list becomes the first request that is not posted. Returns the number of packets; 0: nothing has been posted,
 * as the memory cannot be read this way. */
uint32_t engine_fast_send_udp(struct qp *qp, struct ibv_send_wr **list, uint64_t now, uint32_t budget, uint32_t most,
			      char *payload, struct packet *packet) REQUIRES(qp->lock);
/* Completes datagrams posted so, from `wr` on: they are sent. Called before anything else is done with the QP. */
void engine_fast_datagrams_sent(struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock);

#endif
