/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/cq.h"

#include <errno.h>

#include "object/qp.h"

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

/* Head and tail change under the lock only, so the holder may read them relaxed. */
static uint32_t head_of(const struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed);
}

static uint32_t tail_of(const struct cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

/* Whether moderation lets the event go now. */
static bool batch_is_full(struct cq *cq) REQUIRES(cq->lock)
{
	return cq->batch <= 1 || ++cq->held >= cq->batch;
}

static void disarm(struct cq *cq) REQUIRES(cq->lock)
{
	cq->arm = CQ_UNARMED;
	cq->held = 0;
}

bool cq_push(struct cq *cq, const struct cqe *cqe)
{
	bool wake = false, delay = false, overrun = false, ok;
	uint32_t tail;

	lock_take(&cq->lock);
	tail = tail_of(cq);
	ok = !cq->overrun && tail - head_of(cq) < cq->depth;
	if (ok) {
		cq->ring[tail & cq->mask] = *cqe;
		atomic_store_explicit(&cq->tail, tail + 1,
				      memory_order_release); /* pairs with cq_looks_empty() */
		wake = cq->arm == CQ_ARMED ||
		       (cq->arm == CQ_ARMED_SOLICITED && (cqe->solicited || cqe->status != IBV_WC_SUCCESS));
		if (wake && unlikely(!batch_is_full(cq))) {
			delay = cq->held == 1;
			wake = false;
		}
		if (wake)
			disarm(cq);
	} else if (cq->ignore_overrun) {
		ok = true; /* so its user wanted it: the completion is lost, and nothing else */
	} else {
		overrun = !cq->overrun;
		cq->overrun = true;
	}
	lock_drop(&cq->lock);
	if (wake)
		cq->hca->ops->cq_event(cq);
	if (unlikely(delay))
		cq->hca->ops->cq_delayed(cq);
	if (overrun)
		cq->hca->ops->cq_error(cq);
	return ok;
}

void cq_moderate(struct cq *cq, uint16_t batch)
{
	lock_take(&cq->lock);
	cq->batch = batch;
	lock_drop(&cq->lock);
	cq_release(cq); /* what was held back was so by other rules */
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

/* As on hardware, a slot of a work queue is free when its completion, or a later one, has been polled. The QP
 * is there: qp_destroy() removes its CQEs before it goes. */
static void reclaim(struct cq *cq, const struct cqe *cqe)
{
	_Atomic uint32_t *reclaimed;
	struct qp *qp;

	if (unlikely(cqe->keeps_slot)) /* and the QP may be gone, or another process's */
		return;
	qp = pool_at(&cq->hca->qps, cqe->qpn & 0xffff);
	reclaimed = cqe->opcode & IBV_WC_RECV ? &qp->rq.reclaimed : &qp->sq.reclaimed;
	/* relaxed: a count, the slots themselves are guarded by their queue's lock */
	atomic_store_explicit(reclaimed, cqe->wqe + 1, memory_order_relaxed);
}

int cq_poll(struct cq *cq, int max, struct cqe *out)
{
	uint32_t head;
	int n = 0;

	if (cq_looks_empty(cq))
		return 0;
	lock_take(&cq->lock);
	for (head = head_of(cq); n < max && head != tail_of(cq); head++, n++) {
		out[n] = cq->ring[head & cq->mask];
		reclaim(cq, &out[n]);
	}
	atomic_store_explicit(&cq->head, head, memory_order_relaxed);
	lock_drop(&cq->lock);
	return n;
}

void cq_request(struct cq *cq, bool solicited_only)
{
	lock_take(&cq->lock);
	/* a request for any completion is not weakened by a later one for solicited ones */
	if (cq->arm != CQ_ARMED)
		cq->arm = solicited_only ? CQ_ARMED_SOLICITED : CQ_ARMED;
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
	moved = tail_of(cq) - head_of(cq) <= depth;
	if (moved) {
		for (uint32_t i = head_of(cq); i != tail_of(cq); i++)
			ring[count++] = cq->ring[i & cq->mask];
		old = cq->ring;
		old_from = cq->from;
		cq->ring = ring;
		cq->from = from;
		cq->depth = depth;
		cq->base.cqe = (int)depth;
		cq->mask = size - 1;
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
	to = head_of(cq);
	for (uint32_t i = to; i != tail_of(cq); i++)
		if (cq->ring[i & cq->mask].qpn != qpn)
			cq->ring[to++ & cq->mask] = cq->ring[i & cq->mask];
	atomic_store_explicit(&cq->tail, to, memory_order_release);
	lock_drop(&cq->lock);
}
