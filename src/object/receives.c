/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/receives.h"

static struct share_receive shown_as(const struct rq *rq, const struct rwqe *receive)
{
	const struct ibv_sge *sge = receive->sge;

	return receive->num_sge == 1 ? (struct share_receive){sge->addr, sge->length, sge->lkey ^ rq->lkey}
				     : (struct share_receive){0};
}

void receives_show_rest(struct rq *rq)
{
	if (hooks_any())
		return;
	/* those that were taken before they were shown */
	if ((int32_t)(rq->shown_to - rq->head) < 0)
		rq->shown_to = rq->head;
	for (; rq->shown_to != rq->tail && rq->shown_to - rq->head < SHARE_RECEIVES; rq->shown_to++)
		rq->display[rq->shown_to % SHARE_RECEIVES] = shown_as(rq, rq_at(rq, rq->shown_to));
	/* release pairs with look_at_receives() in reach.c */
	atomic_store_explicit(&rq->shown->receives, rq->shown_to, memory_order_release);
}

void receives_open(struct rq *rq, struct share *share, uint32_t qp, uint32_t lkey)
{
	struct share_qp *where = rq->shown ? NULL : share_qp_entry(share, qp, &rq->display);

	if (!where)
		return;
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
	rq->settling |= atomic_load_explicit(&rq->shown->receives, memory_order_relaxed) != rq->head;
	atomic_store_explicit(&rq->shown->receives, rq->head, memory_order_release);
	rq->shown = NULL;
	share_renew_qp(rq->share);
}

void receives_restart(struct rq *rq)
{
	receives_hide(rq);
	if (rq->entry)
		rq->entry->life++;
	rq->entry = NULL;
	rq->settling = false;
	rq->psns = 0;
}
