/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/srq.h"

#include <errno.h>
#include <string.h>

#include "base/yield.h"
#include "memory/share.h"
#include "object/offers.h"

/* As in qp.c: a thread may still be checking the lock of an earlier SRQ in this memory. */
static void srq_clear(struct srq *srq) REQUIRES(srq->rq.lock)
{
	static_assert(offsetof(struct rq, lock) == 0, "the lock is what stays");
	char *after = (char *)&srq->rq.lock + sizeof(srq->rq.lock);

	memset(srq, 0, offsetof(struct srq, rq));
	memset(after, 0, (size_t)((char *)(srq + 1) - after));
}

/* Converts an index in the pool to the low bits of the number, and back: the first ones are in the part of the
 * process's first slot. */
static uint32_t srq_index(const struct hca *hca, uint32_t index)
{
	return index ^ slot_part(hca->slot) << SLOT_SHIFT;
}

struct srq *srq_create(struct hca *hca, struct pd *pd, struct xrcd *xrcd, struct cq *cq, uint32_t depth,
		       uint32_t max_sge)
{
	uint32_t index;
	struct srq *srq = pool_alloc(&hca->srqs, &index);
	int err;

	if (!srq)
		return NULL;
	lock_take(&srq->rq.lock);
	srq_clear(srq);
	err = rq_init(&srq->rq, pd, BUFFER_SHARED_RECEIVE, depth, max_sge);
	srq->hca = hca;
	srq->pd = pd_holder(pd);
	srq->xrcd = xrcd;
	srq->cq = cq;
	srq->number = hca_number(hca, srq_index(hca, index));
	srq->base.handle = srq->handle = index;
	srq->alive = !err;
	lock_drop(&srq->rq.lock);
	if (err) {
		pool_free(&hca->srqs, index);
		errno = ENOMEM;
		return NULL;
	}
	atomic_fetch_add_explicit(&srq->pd->users, 1, memory_order_relaxed);
	if (xrcd)
		atomic_fetch_add_explicit(&xrcd->users, 1, memory_order_relaxed);
	if (cq)
		atomic_fetch_add_explicit(&cq->users, 1, memory_order_relaxed);
	return srq;
}

struct srq *srq_enter(struct hca *hca, uint32_t number, const struct xrcd_name *domain)
{
	struct srq *srq = hca_has_number(hca, number) ? pool_at(&hca->srqs, srq_index(hca, number & 0xffff)) : NULL;
	bool found;

	if (!srq)
		return NULL;
	lock_take(&srq->rq.lock);
	found = srq->alive && srq->xrcd && xrcd_same(&srq->xrcd->name, domain);
	if (found) /* relaxed: under the lock, as is the end of use in srq_destroy() */
		atomic_fetch_add_explicit(&srq->inside, 1, memory_order_relaxed);
	lock_drop(&srq->rq.lock);
	return found ? srq : NULL;
}

void srq_leave(struct srq *srq)
{
	/* release: all use of the SRQ is over before srq_destroy() sees the count */
	atomic_fetch_sub_explicit(&srq->inside, 1, memory_order_release);
}

void srq_destroy(struct srq *srq)
{
	bool is_inert = hca_is_inert(srq->hca);

	lock_take(&srq->rq.lock);
	srq->alive = false;
	srq->base.handle = NO_HANDLE;
	lock_drop(&srq->rq.lock);
	/* in a child of fork() no thread is inside; acquire pairs with srq_leave() */
	while (!is_inert && atomic_load_explicit(&srq->inside, memory_order_acquire))
		processor_yield();
	if (srq->rq.offers && !is_inert) /* a visitor of the last QP may still be inside */
		share_settle(srq->hca->share);
	if (!is_inert) {
		offers_close(&srq->rq);
		rq_fini(&srq->rq);
	}
	atomic_fetch_sub_explicit(&srq->pd->users, 1, memory_order_release);
	if (srq->xrcd)
		atomic_fetch_sub_explicit(&srq->xrcd->users, 1, memory_order_release);
	if (srq->cq)
		atomic_fetch_sub_explicit(&srq->cq->users, 1, memory_order_release);
	if (!is_inert)
		pool_free(&srq->hca->srqs, srq->handle);
}

/* True if the event is due: once, until the limit is set again. */
static bool limit_reached(struct srq *srq) REQUIRES(srq->rq.lock)
{
	if (rq_posted(&srq->rq) >= srq->limit)
		return false;
	srq->limit = 0;
	return true;
}

static void srq_tell(struct srq *srq)
{
	srq->hca->ops->srq_event(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
}

static bool take(struct rq *rq, struct credit *credit, struct rwqe *out, uint32_t *position)
{
	if (rq->offers && offers_take(rq, out, position)) {
		rq_use_credit(rq, credit);
		return true;
	}
	if (!rq_take(rq, credit, out, position))
		return false;
	/* only read under the lock */
	atomic_store_explicit(&rq->reclaimed, rq->head - rq->offered, memory_order_relaxed);
	return true;
}

bool srq_take(struct srq *srq, struct credit *credit, struct rwqe *out, uint32_t *position)
{
	bool found, low;

	lock_take(&srq->rq.lock);
	found = take(&srq->rq, credit, out, position);
	low = found && limit_reached(srq);
	lock_drop(&srq->rq.lock);
	if (unlikely(low))
		srq_tell(srq);
	return found;
}

uint32_t srq_offer(struct srq *srq)
{
	struct share *share = srq->hca->share;

	if (!share || srq->xrcd)
		return 0;
	lock_take(&srq->rq.lock);
	offers_open(&srq->rq, share, srq->handle, (uintptr_t)pd_domain(srq->pd), srq->hca->keys.lkey);
	lock_drop(&srq->rq.lock);
	return srq->rq.offers ? srq->handle + 1 : 0;
}

bool srq_claimed(struct srq *srq, uint32_t position, uint32_t qp, uint32_t length, uint64_t *wr_id, struct rwqe *copy)
{
	const struct rwqe *r;
	bool found, low = false;

	lock_take(&srq->rq.lock);
	r = offers_claimed(&srq->rq, position, qp);
	found = r && length <= r->length;
	if (found) {
		*wr_id = r->wr_id;
		if (copy)
			memcpy(copy, r, rwqe_bytes(r));
		offers_used(&srq->rq, position);
		low = limit_reached(srq);
	}
	lock_drop(&srq->rq.lock);
	if (unlikely(low))
		srq_tell(srq);
	return found;
}

bool srq_take_claimed(struct srq *srq, uint32_t qp, uint32_t *cell, uint32_t *position, uint64_t *wr_id)
{
	const struct rwqe *r;
	bool low = false;

	lock_take(&srq->rq.lock);
	r = offers_find_claimed(&srq->rq, qp, cell, position);
	if (r) {
		*wr_id = r->wr_id;
		offers_used(&srq->rq, *position);
		low = limit_reached(srq);
	}
	lock_drop(&srq->rq.lock);
	if (unlikely(low))
		srq_tell(srq);
	return r;
}

void srq_return_claimed(struct srq *srq, uint32_t qp)
{
	lock_take(&srq->rq.lock);
	offers_return(&srq->rq, qp);
	lock_drop(&srq->rq.lock);
}

bool srq_is_empty(struct srq *srq)
{
	bool empty;

	lock_take(&srq->rq.lock);
	empty = srq->rq.head == srq->rq.tail && !offers_unclaimed(&srq->rq);
	lock_drop(&srq->rq.lock);
	return empty;
}

int srq_post(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err;

	lock_take(&srq->rq.lock);
	err = rq_post(&srq->rq, srq->number, wr, bad);
	offers_show(&srq->rq);
	lock_drop(&srq->rq.lock);
	return err;
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
		/* if the queue is below the limit already, report it now: no later message may do so */
		low = limit_reached(srq);
	}
	lock_drop(&srq->rq.lock);
	if (low)
		srq_tell(srq);
	return err;
}
