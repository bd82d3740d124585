/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that the sender delivers: it stores the bytes in the receive that the local peer shows (object/receives.h),
 * and tells it so by a record in its ring; if the receive's memory is not mapped here, the record carries the bytes.
 * Then the request is complete: no packet, no PSN, no ACK. All else goes as packets. Inline, as in fast_send.h. With
 * qp->lock.
 *
 * The first message of a connection goes as a packet, so that PSNs that do not fit are found. While a hook listens all
 * do, as hooks see packets. */
#ifndef UROCE_ENGINE_DELIVER_H
#define UROCE_ENGINE_DELIVER_H

#include "engine/fast_send.h"
#include "memory/reach.h"
#include "object/receives.h"

/* Bytes of each message of a run but the first, so that a thread that closes a region does not wait for long. */
#define DELIVER_MORE 1024u

/* A run of requests while they are delivered: the access to the peer has begun, and stands at the next receive. */
struct delivery {
	struct mr *mr; /* region of the pieces; NULL: inline data */
	uint32_t lkey;
	uint32_t count, length; /* requests that are done; bytes of the first */
};

/* True if no request has to leave before, and the peer may show receives. */
FAST_INLINE bool deliver_may(const struct qp *qp)
{
	return likely(qp->reach && qp->sq.head == qp->sq.tail && !hooks_any()) &&
	       likely(qp->reach_pair.receives.is_known || qp->req.una.v != qp->attr.sq_psn);
}

/* True if the memory of the peer's last receive was not mapped here. */
FAST_INLINE bool deliver_carries(const struct qp *qp)
{
	return qp->reach_pair.receives.carried_key;
}

/* True for a request that a run takes. */
FAST_INLINE bool deliver_is_plain(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t most)
{
	return likely((wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM) && wr->num_sge == 1 &&
		      fast_fits(qp, wr) && wr->sg_list->length - 1 < most) &&
	       (!(wr->send_flags & IBV_SEND_INLINE) || wr->sg_list->length <= qp->sq.fast_inline);
}

/* The opcode of the packet that a request would be, if it is a message that may be delivered; else 0. */
FAST_INLINE uint8_t deliver_opcode(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_SEND		  ? TRANSPORT_RC | OP_SEND_ONLY
	       : wr->opcode == IBV_WR_SEND_WITH_IMM	  ? TRANSPORT_RC | OP_SEND_ONLY_IMM
	       : wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? TRANSPORT_RC | OP_WRITE_ONLY_IMM
							  : 0;
}

/* What the peer is told of a message that stands in its place, in the ring, before deliver_next() or deliver_end(). */
FAST_INLINE void deliver_describe(const struct qp *qp, const struct ibv_send_wr *wr, struct packet *p)
{
	p->opcode = deliver_opcode(wr);
	p->solicited = wr->send_flags & IBV_SEND_SOLICITED;
	p->dest_qpn = qp->attr.dest_qp_num;
	p->imm = wr->imm_data;
	p->position = qp->reach_pair.receives.next;
}

/* Delivers the first plain request of a run. False: nothing is done. */
FAST_INLINE bool deliver_begin(struct qp *qp, const struct ibv_send_wr *wr, struct packet *p, struct delivery *d)
{
	const struct ibv_sge *sge = wr->sg_list;
	const void *from = (const void *)(uintptr_t)sge->addr;
	char *to = NULL;

	*d = (struct delivery){.lkey = sge->lkey, .length = sge->length};
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		d->mr = sge_region_again(qp->hca, &qp->sq.last, qp->pd, sge, sge->length, 0);
		if (unlikely(!d->mr))
			return false;
		from = mr_at(d->mr, sge->addr);
	}
	if (likely(!d->mr || !mr_is_indirect(d->mr)))
		to = reach_deliver(qp->reach, &qp->reach_pair, sge->length);
	if (likely(to)) {
		if (likely(fault_copy(to, from, sge->length))) {
			p->length = sge->length;
			deliver_describe(qp, wr, p);
			return true;
		}
		reach_undeliver(qp->reach, &qp->reach_pair);
	}
	if (d->mr)
		mr_put(d->mr);
	return false;
}

/* The peer has been told of the last one. Delivers the next request, if it is like the first. */
FAST_INLINE bool deliver_next(struct qp *qp, const struct ibv_send_wr *wr, struct packet *p, struct delivery *d)
{
	const struct ibv_sge *sge;
	const void *from;
	char *to;

	qp->reach_pair.receives.next++;
	qp->reach_pair.receives.psns++;
	qp->sq.tail++;
	d->count++;
	if (likely(!wr) || unlikely(!deliver_is_plain(qp, wr, DELIVER_MORE)))
		return false;
	sge = wr->sg_list;
	from = (const void *)(uintptr_t)sge->addr;
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (unlikely(!d->mr || sge->lkey != d->lkey || !mr_allows(d->mr, qp->pd, sge->addr, sge->length, 0)))
			return false;
		from = mr_at(d->mr, sge->addr);
	}
	to = reach_deliver_more(qp->reach, &qp->reach_pair, sge->length);
	if (unlikely(!to || !fault_copy(to, from, sge->length)))
		return false;
	p->length = sge->length;
	deliver_describe(qp, wr, p);
	return true;
}

/* Ends the run that begins with `first`, and completes its requests. */
FAST_INLINE void deliver_end(struct qp *qp, const struct ibv_send_wr *first, struct delivery *d) REQUIRES(qp->lock)
{
	uint32_t position = qp->sq.tail - d->count;

	reach_leave(qp->reach);
	if (d->mr)
		mr_put(d->mr);
	qp->req.wqe = qp->sq.head = qp->sq.tail;
	complete_posted(qp, first, position, d->count, d->length);
	if (unlikely(qp->cq_lost))
		settle_overrun(qp);
}

/* Undoes deliver_begin(), as the peer cannot be told. */
FAST_INLINE void deliver_abandon(struct qp *qp, struct delivery *d)
{
	reach_undeliver(qp->reach, &qp->reach_pair);
	if (d->mr)
		mr_put(d->mr);
}

/* The same as deliver_begin() for any request of a list; no other follows it. False: nothing is done that cannot be
 * done again, or it takes no receive. */
static __attribute__((noinline)) bool deliver_any(struct qp *qp, const struct ibv_send_wr *wr, struct packet *p,
						  struct delivery *d)
{
	uint64_t length = deliver_opcode(wr) && fast_fits(qp, wr) ? posted_length(wr) : UINT64_MAX;

	if (length > HCA_MAX_MESSAGE || !onesided_deliver(qp, wr, length))
		return false;
	*d = (struct delivery){.length = (uint32_t)length};
	p->length = (uint32_t)length;
	deliver_describe(qp, wr, p);
	return true;
}

/* Claims a receive for a message whose bytes its record is to carry. False: as deliver_any(). */
static inline bool deliver_carry(struct qp *qp, const struct ibv_send_wr *wr, struct packet *p, struct delivery *d)
{
	uint8_t opcode = deliver_opcode(wr);
	uint64_t length = opcode && opcode != OP_WRITE_ONLY_IMM && fast_fits(qp, wr) ? posted_length(wr) : UINT64_MAX;

	if (!reach_carry(qp->reach, &qp->reach_pair, length))
		return false;
	*d = (struct delivery){.length = (uint32_t)length};
	p->length = (uint32_t)length;
	deliver_describe(qp, wr, p);
	return true;
}

/* Copies its bytes to `to`, behind the record. False: they cannot be read. */
static inline bool deliver_load(struct qp *qp, const struct ibv_send_wr *wr, const struct packet *p, char *to)
{
	uint32_t length;

	return fast_gather(qp, wr, p->length, &length, to) && length == p->length;
}

/* The peer has been told of it. */
static inline void deliver_carried(struct qp *qp, const struct ibv_send_wr *wr, struct packet *p, struct delivery *d)
	REQUIRES(qp->lock)
{
	struct reach_receives *v = &qp->reach_pair.receives;

	deliver_next(qp, NULL, p, d);
	v->unstored = true;
	v->carried = v->psns;
	deliver_end(qp, wr, d);
}

#endif
