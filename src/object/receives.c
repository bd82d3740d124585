/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/receives.h"

void receives_show_rest(struct rq *rq)
{
	if (hooks_any())
		return;
	/* those that were taken before they were shown */
	if ((int32_t)(rq->shown_to - rq->head) < 0)
		rq->shown_to = rq->head;
	for (; rq->shown_to != rq->tail && rq->shown_to - rq->head < SHARE_RECEIVES; rq->shown_to++)
		rq->display[rq->shown_to % SHARE_RECEIVES] = receive_shown_as(rq_at(rq, rq->shown_to), rq->lkey);
	/* release pairs with look_at_receives() in delivery.c */
	atomic_store_explicit(&rq->shown->receives, rq->shown_to, memory_order_release);
}

void receives_open(struct rq *rq, struct share *share, uint32_t qp, uint32_t queue, uint32_t lkey)
{
	struct share_qp *where = rq->shown ? NULL : share_qp_entry(share, qp, &rq->display);

	if (!where)
		return;
	atomic_store_explicit(&where->queue, queue, memory_order_relaxed); /* share_open_qp() or what is shown tells */
	rq->of_srq = queue;
	rq->share = share;
	rq->lkey = lkey;
	rq->shown_to = rq->head;
	rq->shown = rq->entry = where;
	receives_taken(rq);
	receives_show_rest(rq);
}

void receives_hide(struct rq *rq)
{
	if (!rq->shown)
		return;
	rq->settling |= rq->of_srq || atomic_load_explicit(&rq->shown->receives, memory_order_relaxed) != rq->head;
	atomic_store_explicit(&rq->shown->receives, rq->head, memory_order_release);
	atomic_store_explicit(&rq->shown->queue, 0, memory_order_relaxed);
	rq->shown = NULL;
	share_renew_qp(rq->share);
}

void receives_restart(struct rq *rq)
{
	receives_hide(rq);
	if (rq->entry)
		rq->entry->life++;
	rq->psns = 0;
	receives_stored(rq);
	rq->entry = NULL;
	rq->settling = false;
}
