/* One-sided operations on a neighbour's memory: done by whoever posts them, without a packet. Only when nothing earlier is
 * outstanding, so that they are in order: as they are posted, or when what was before them is done. Whatever does not fit
 * goes the usual way, which knows what is wrong.
 * SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace.h"
#include "engine/internal.h"
#include "memory/copy.h"
#include "memory/reach.h"

/* What each work request needs on either side. */
static const struct {
	unsigned remote, local;
	bool possible;
} needs[] = {
	[IBV_WR_RDMA_WRITE] = {IBV_ACCESS_REMOTE_WRITE, 0, true},
	[IBV_WR_RDMA_READ] = {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE, true},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, true},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, true},
};

/* A request's own memory while it is in use. */
struct hold {
	struct mr *mr[HCA_MAX_SGE];
	struct iovec iov[HCA_MAX_SGE];
	uint32_t mrs, iovs;
};

static void let_go(struct hold *h)
{
	while (h->mrs)
		mr_put(h->mr[--h->mrs]);
}

static bool take_hold(struct qp *qp, const struct wqe *w, unsigned access, struct hold *h)
{
	h->mrs = h->iovs = 0;
	if (w->flags & IBV_SEND_INLINE) {
		h->iov[h->iovs++] = (struct iovec){(void *)w->sge, w->length};
		return true;
	}
	for (uint32_t i = 0; i < w->num_sge; i++) {
		const struct ibv_sge *sge = &w->sge[i];
		struct mr *mr;

		if (sge->length == 0)
			continue;
		mr = mr_get(qp->hca, sge->lkey);
		if (likely(mr))
			h->mr[h->mrs++] = mr;
		if (unlikely(!mr || mr_is_indirect(mr) ||
			     !mr_allows(mr, qp->pd, sge->addr, sge->length, access | MR_LOCAL))) {
			let_go(h);
			return false;
		}
		h->iov[h->iovs++] = (struct iovec){mr_at(mr, sge->addr), sge->length};
	}
	return true;
}

static bool atomic(const struct wqe *w, const struct reach_span *span, const struct hold *h)
{
	uint64_t before;
	const char *from = (const char *)&before;

	if (!span->at)
		return false;
	before = w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
			 ? atomic_fetch_add_at(span->at, w->compare_add)
			 : atomic_compare_swap_at(span->at, w->compare_add, w->swap);
	for (uint32_t i = 0; i < h->iovs; i++) {
		memcpy(h->iov[i].iov_base, from, h->iov[i].iov_len);
		from += h->iov[i].iov_len;
	}
	return true;
}

static bool perform(struct qp *qp, const struct wqe *w, const struct reach_span *span, const struct hold *h)
{
	switch (w->opcode) {
	case IBV_WR_RDMA_WRITE:
		return reach_write(qp->reach, span, h->iov, h->iovs, w->length);
	case IBV_WR_RDMA_READ:
		return reach_read(qp->reach, span, h->iov, h->iovs, w->length);
	default:
		return atomic(w, span, h);
	}
}

/* What the usual way would refuse, or do without looking at the key. */
static bool is_ordinary(const struct qp *qp, const struct wqe *w)
{
	if (w->length == 0 || w->length > HCA_MAX_MESSAGE)
		return false;
	if (w->opcode == IBV_WR_RDMA_WRITE)
		return true;
	if (!qp->attr.max_rd_atomic)
		return false;
	return w->opcode == IBV_WR_RDMA_READ || (w->length == sizeof(uint64_t) && !(w->remote_addr & 7));
}

bool direct_possible(const struct qp *qp, const struct wqe *w)
{
	/* who traces wants to see packets */
	return qp->reach && qp->state == IBV_QPS_RTS && w->opcode < ARRAY_SIZE(needs) && needs[w->opcode].possible &&
	       is_ordinary(qp, w) && !trace_on;
}

bool direct_perform(struct qp *qp, const struct wqe *w)
{
	struct reach_span span;
	struct hold hold;
	bool done = false;

	if (!take_hold(qp, w, needs[w->opcode].local, &hold))
		return false;
	if (reach_enter(qp->reach, &qp->reach_pair, w->rkey, w->remote_addr, w->length, needs[w->opcode].remote, &span)) {
		done = perform(qp, w, &span, &hold);
		reach_leave(qp->reach);
	}
	let_go(&hold);
	return done;
}

bool engine_place(struct qp *qp, const struct iovec *from, unsigned count, uint32_t length, uint64_t address, uint32_t rkey)
{
	struct reach_span span;
	bool done;

	if (!qp->reach || qp->state != IBV_QPS_RTS || trace_on)
		return false;
	if (!reach_enter(qp->reach, &qp->reach_pair, rkey, address, length, IBV_ACCESS_REMOTE_WRITE, &span))
		return false;
	done = reach_write(qp->reach, &span, from, count, length);
	reach_leave(qp->reach);
	return done;
}

void engine_reach(struct qp *qp, struct reach *reach)
{
	if (qp->transport != TRANSPORT_RC || qp->reach == reach)
		return;
	qp->reach = reach;
	qp->reach_pair = (struct reach_pair){
		.qp = qp->attr.dest_qp_num & 0xffff,
		.pair = share_pair(qp->path.dgid.raw, qp->attr.dest_qp_num, qp->path.sgid.raw, qp->base.qp_num),
	};
}
