/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/receives.h"

#include "object/hca.h"

static struct share_receive shown_as(const struct rwqe *receive)
{
	const struct ibv_sge *sge = receive->sge;

	return receive->num_sge == 1 ? (struct share_receive){sge->addr, sge->length, sge->lkey}
				     : (struct share_receive){0};
}

void receives_show_rest(struct qp *qp)
{
	struct rq *rq = &qp->rq;

	if (hooks_any())
		return;
	/* those that were taken before they were shown */
	if ((int32_t)(rq->shown_to - rq->head) < 0)
		rq->shown_to = rq->head;
	for (; rq->shown_to != rq->tail && rq->shown_to - rq->head < SHARE_RECEIVES; rq->shown_to++)
		rq->display[rq->shown_to % SHARE_RECEIVES] = shown_as(rq_at(rq, rq->shown_to));
	/* release pairs with look_at_receives() in reach.c */
	atomic_store_explicit(&rq->shown->receives, rq->shown_to, memory_order_release);
}

void receives_open(struct qp *qp)
{
	struct share_qp *where = qp->rq.shown ? NULL : share_qp_entry(qp->hca->share, qp->index, &qp->rq.display);

	if (!where)
		return;
	qp->rq.shown_to = qp->rq.head;
	qp->rq.shown = where;
	receives_taken(qp);
	receives_show_rest(qp);
}

void receives_hide(struct qp *qp)
{
	struct rq *rq = &qp->rq;

	if (!rq->shown)
		return;
	rq->settling |= atomic_load_explicit(&rq->shown->receives, memory_order_relaxed) != rq->head;
	atomic_store_explicit(&rq->shown->receives, rq->head, memory_order_release);
	rq->shown = NULL;
	share_renew_qp(qp->hca->share);
}

void receives_restart(struct qp *qp)
{
	struct share_receive *ring;
	struct share_qp *entry = qp->hca->share ? share_qp_entry(qp->hca->share, qp->index, &ring) : NULL;

	receives_hide(qp);
	if (entry)
		entry->life++;
}
