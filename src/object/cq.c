/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/cq.h"

#include <errno.h>

#include "base/base.h"

static uint32_t ring_size(uint32_t depth)
{
	uint32_t size = 1;

	while (size < depth)
		size *= 2;
	return size;
}

static struct cqe *ring_alloc(struct cq *cq, uint32_t size, struct pd **from)
{
	return buffer_alloc(cq->holder, size * sizeof(struct cqe), BUFFER_COMPLETION, from);
}

int cq_init(struct cq *cq, struct hca *hca, uint32_t depth)
{
	if (depth == 0 || depth > HCA_MAX_CQE)
		return -EINVAL;
	lock_set_rank(&cq->lock, RANK_CQ);
	cq->hca = hca;
	cq->depth = depth;
	cq->mask = ring_size(depth) - 1;
	cq->ring = ring_alloc(cq, cq->mask + 1, &cq->from);
	list_init(&cq->waiting);
	return cq->ring ? 0 : -ENOMEM;
}

void cq_fini(struct cq *cq)
{
	buffer_free(cq->ring, BUFFER_COMPLETION, cq->from);
	cq->ring = NULL;
}

/* True if moderation allows the event now. */
static bool batch_is_full(struct cq *cq) REQUIRES(cq->lock)
{
	return cq->batch <= 1 || ++cq->held >= cq->batch;
}

static void disarm(struct cq *cq) REQUIRES(cq->lock)
{
	atomic_store_explicit(&cq->arm, CQ_UNARMED, memory_order_relaxed);
	cq->held = 0;
	cq->told = cq_tail(cq);
}

bool cq_refuse(struct cq *cq)
{
	bool ignore = cq->ignore_overrun, first = !ignore && !cq_overrun(cq);

	if (first)
		atomic_store_explicit(&cq->overrun, true, memory_order_relaxed);
	lock_drop(&cq->lock);
	if (first)
		cq->hca->ops->cq_error(cq);
	return ignore;
}

void cq_wake(struct cq *cq, bool urgent)
{
	bool wake = cq_arm(cq) == CQ_ARMED || urgent, delay = false;

	if (wake && unlikely(!batch_is_full(cq))) {
		delay = cq->held == 1;
		wake = false;
	}
	if (wake)
		disarm(cq);
	lock_drop(&cq->lock);
	if (wake)
		cq->hca->ops->cq_event(cq);
	if (unlikely(delay))
		cq->hca->ops->cq_delayed(cq);
}

void cq_moderate(struct cq *cq, uint16_t batch)
{
	lock_take(&cq->lock);
	cq->batch = batch;
	lock_drop(&cq->lock);
	cq_release(cq); /* events that the old values delayed */
}

void cq_release(struct cq *cq)
{
	bool wake;

	lock_take(&cq->lock);
	wake = cq->held;
	if (wake)
		disarm(cq);
	lock_drop(&cq->lock);
	if (wake)
		cq->hca->ops->cq_event(cq);
}

/* True if completions wait in the CQ and the application has not been told of any since it polled the one before
 * them. */
static bool has_untold(const struct cq *cq) REQUIRES(cq->lock)
{
	return cq_tail(cq) != cq_head(cq) && cq->told - cq_head(cq) - 1 >= cq_tail(cq) - cq_head(cq);
}

static bool has_urgent(const struct cq *cq) REQUIRES(cq->lock)
{
	for (uint32_t i = cq_head(cq); i != cq_tail(cq); i++) {
		const struct cqe *cqe = &cq->ring[i & cq->mask];

		if (cqe->marks & CQE_SOLICITED || cqe->status != IBV_WC_SUCCESS)
			return true;
	}
	return false;
}

/* IBTA 11.4.2.2 requires an event only for completions after the request. Adapters also send one for completions that
 * came before it and were not reported, and UCX relies on that: it does not poll between the request and its sleep. */
void cq_request(struct cq *cq, bool solicited_only)
{
	lock_take(&cq->lock);
	/* a request for any completion is not weakened by a later one for solicited ones */
	if (cq_arm(cq) != CQ_ARMED)
		atomic_store_explicit(&cq->arm, solicited_only ? CQ_ARMED_SOLICITED : CQ_ARMED, memory_order_relaxed);
	if (unlikely(has_untold(cq)))
		cq_wake(cq, has_urgent(cq));
	else
		lock_drop(&cq->lock);
}

void cq_tell_rest(struct cq *cq)
{
	lock_take(&cq->lock);
	if (cq_has_left(cq))
		cq_wake(cq, true);
	else
		lock_drop(&cq->lock);
}

int cq_resize(struct cq *cq, uint32_t depth)
{
	uint32_t size, count = 0;
	bool moved;
	struct cqe *ring, *old;
	struct pd *from, *old_from;

	if (depth == 0 || depth > HCA_MAX_CQE)
		return -EINVAL;
	size = ring_size(depth);
	ring = ring_alloc(cq, size, &from);
	if (!ring)
		return -ENOMEM;
	lock_take(&cq->lock);
	old = ring;
	old_from = from;
	moved = cq_tail(cq) - cq_head(cq) <= depth;
	if (moved) {
		for (uint32_t i = cq_head(cq); i != cq_tail(cq); i++)
			ring[count++] = cq->ring[i & cq->mask];
		old = cq->ring;
		old_from = cq->from;
		cq->ring = ring;
		cq->from = from;
		cq->depth = depth;
		cq->base.cqe = (int)depth;
		cq->mask = size - 1;
		cq->told -= cq_head(cq);
		atomic_store_explicit(&cq->head, 0, memory_order_relaxed);
		atomic_store_explicit(&cq->tail, count, memory_order_release);
	}
	lock_drop(&cq->lock);
	buffer_free(old, BUFFER_COMPLETION, old_from);
	return moved ? 0 : -EINVAL;
}

void cq_remove_qp(struct cq *cq, uint32_t qpn)
{
	uint32_t to;

	lock_take(&cq->lock);
	to = cq_head(cq);
	for (uint32_t i = to; i != cq_tail(cq); i++)
		if (cq->ring[i & cq->mask].qpn != qpn)
			cq->ring[to++ & cq->mask] = cq->ring[i & cq->mask];
	atomic_store_explicit(&cq->tail, to, memory_order_release);
	lock_drop(&cq->lock);
}
