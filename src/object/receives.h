/* SPDX-License-Identifier: BSD-2-Clause */
/* The receives of an RC QP as its peer sees them, if that is a local one (memory/share.h): where each is in memory. A
 * peer that sees one stores the message there and puts its record into the ring: then the message is done for it. So
 * the next message uses up the receive that stands at its position, and none is shown again. With qp->lock. */
#ifndef UROCE_OBJECT_RECEIVES_H
#define UROCE_OBJECT_RECEIVES_H

#include "base/hooks.h"
#include "memory/share.h"
#include "object/queue.h"

/* A receive as local peers see it. `lkey`: lkey ^ rkey of each region. */
static inline struct share_receive receive_shown_as(const struct rwqe *receive, uint32_t lkey)
{
	const struct ibv_sge *sge = receive->sge;

	return receive->num_sge == 1 ? (struct share_receive){sge->addr, sge->length, sge->lkey ^ lkey}
				     : (struct share_receive){0};
}

/* Shows what is posted and is not shown yet, as far as there is room. While a hook listens nothing is shown: then
 * messages come as packets, which hooks see. */
void receives_show_rest(struct rq *rq);

/* Shows receives from now on, in the QP's entry of the table; or, if `queue` is not 0, says there that they are those
 * of an SRQ: share_qp.queue. `lkey`: lkey ^ rkey of each region. */
void receives_open(struct rq *rq, struct share *share, uint32_t qp, uint32_t queue, uint32_t lkey);

/* No receive is shown until receives_open(): the peer's next look finds none. Messages for those that it has seen may
 * still come: rq.settling, until engine_settled(). */
void receives_hide(struct rq *rq);

/* The positions begin anew, as the QP is in RESET and shows nothing. */
void receives_restart(struct rq *rq);

/* After a post of one receive. */
static inline void receives_posted(struct rq *rq)
{
	uint32_t last = rq->tail - 1;
	const struct rwqe *from;
	struct share_receive *to;

	if (!rq->shown)
		return;
	if (unlikely(rq->shown_to != last || last - rq->head >= SHARE_RECEIVES || hooks_any())) {
		receives_show_rest(rq);
		return;
	}
	from = rq_at(rq, last);
	to = &rq->display[last % SHARE_RECEIVES];
	to->address = from->sge[0].addr;
	to->length = from->sge[0].length;
	to->key = from->sge[0].lkey ^ rq->lkey;
	rq->shown_to = rq->tail;
	/* release pairs with look_at_receives() in delivery.c */
	atomic_store_explicit(&rq->shown->receives, rq->tail, memory_order_release);
}

/* The bytes of all messages that were delivered are in place, those too that a record has carried. */
static inline void receives_stored(const struct rq *rq)
{
	/* release pairs with reach_looks_stored() */
	if (likely(rq->entry))
		atomic_store_explicit(&rq->entry->stored, rq->psns, memory_order_release);
}

/* The QP has used up receives. */
static inline void receives_taken(struct rq *rq)
{
	if (!rq->shown)
		return;
	/* release: the peer reads it when it has seen the ACK of what took them */
	atomic_store_explicit(&rq->shown->taken, rq->head, memory_order_release);
	if (unlikely(rq->shown_to != rq->tail))
		receives_show_rest(rq);
}

#endif
