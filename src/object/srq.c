/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/srq.h"

#include <errno.h>
#include <string.h>

struct srq *srq_create(struct hca *hca, struct pd *pd, uint32_t depth, uint32_t max_sge)
{
	uint32_t number;
	struct srq *srq = pool_alloc(&hca->srqs, &number);

	if (!srq)
		return NULL;
	memset(srq, 0, sizeof(*srq));
	if (rq_init(&srq->rq, pd, BUFFER_SHARED_RECEIVE, depth, max_sge)) {
		pool_free(&hca->srqs, number);
		errno = ENOMEM;
		return NULL;
	}
	srq->hca = hca;
	srq->pd = pd_holder(pd);
	srq->number = number;
	srq->base.handle = number;
	atomic_fetch_add_explicit(&srq->pd->users, 1, memory_order_relaxed);
	return srq;
}

void srq_destroy(struct srq *srq)
{
	rq_fini(&srq->rq);
	atomic_fetch_sub_explicit(&srq->pd->users, 1, memory_order_release);
	pool_free(&srq->hca->srqs, srq->number);
}

/* Whether the event is due: once, until the limit is set again. */
static bool limit_reached(struct srq *srq) REQUIRES(srq->rq.lock)
{
	if (srq->rq.tail - srq->rq.head >= srq->limit)
		return false;
	srq->limit = 0;
	return true;
}

static void tell(struct srq *srq)
{
	srq->hca->ops->srq_event(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
}

bool srq_take(struct srq *srq, struct rwqe *out, uint32_t *position)
{
	bool found, low;

	lock_take(&srq->rq.lock);
	found = rq_take_locked(&srq->rq, out, position);
	atomic_store_explicit(&srq->rq.reclaimed, srq->rq.head,
			      memory_order_relaxed); /* of use under the lock only */
	low = found && limit_reached(srq);
	lock_drop(&srq->rq.lock);
	if (unlikely(low))
		tell(srq);
	return found;
}

int srq_post(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return rq_post(&srq->rq, srq->number, wr, bad);
}

int srq_modify(struct srq *srq, uint32_t depth, uint32_t limit, int mask)
{
	bool low = false;
	int err = 0;

	lock_take(&srq->rq.lock);
	if ((mask & IBV_SRQ_LIMIT) && limit > (mask & IBV_SRQ_MAX_WR ? depth : srq->rq.depth))
		err = -EINVAL;
	if (!err && (mask & IBV_SRQ_MAX_WR))
		err = rq_resize(&srq->rq, depth);
	if (!err && (mask & IBV_SRQ_LIMIT)) {
		srq->limit = limit;
		/* whoever arms too late is told at once: no message may come that would tell him later */
		low = limit_reached(srq);
	}
	lock_drop(&srq->rq.lock);
	if (low)
		tell(srq);
	return err;
}
