/* SPDX-License-Identifier: BSD-2-Clause */
#include "objects.h"

#include <errno.h>
#include <string.h>

#include "shortage.h"
#include "object/hca_init.h"

/* What a call that fails may not change. */
struct census {
	uint64_t refused, regions, qps, srqs, timers, users; /* of one size: it is compared by memcmp() */
};

static struct census census_of(struct node *n)
{
	struct census c = {
		.refused = shortage.refused,
		.regions = n->hca.regions,
		.qps = n->hca.qps.used,
		.srqs = n->hca.srqs.used,
		.timers = n->hca.timers.members,
		.users = n->pd.users + n->other_pd.users,
	};

	for (int i = 0; i < WORLD_CQS; i++)
		c.users += n->cq[i].users;
	return c;
}

/* It will be called again. */
static void call_failed(struct world *w, struct node *n, const char *call, struct census *before, int error)
{
	struct census after = census_of(n);

	say(w, NULL, "node %u: %s fails: %s", n->index, call, strerror(error));
	expect(w, NULL, error == ENOMEM, "%s says %s", call, strerror(error));
	expect(w, NULL, after.refused > before->refused, "%s failed, and nothing was refused to it", call);
	before->refused = after.refused;
	expect(w, NULL, !memcmp(&after, before, sizeof(after)),
	       "%s failed: there are %lu regions, %lu QPs, %lu SRQs, %lu timers and %lu users, not %lu, %lu, %lu, %lu, "
	       "%lu",
	       call, after.regions, after.qps, after.srqs, after.timers, after.users, before->regions, before->qps,
	       before->srqs, before->timers, before->users);
}

void objects_hca(struct world *w, struct node *n, const struct hca_ops *ops)
{
	struct census before = census_of(n);
	uint64_t pieces = shortage.pieces;
	int err;

	while ((err = hca_init(&n->hca, ops, (uint8_t)(n->index + 1), w->seed * NETWORK_NODES + n->index, NULL))) {
		call_failed(w, n, "hca_init", &before, -err);
		expect(w, NULL, shortage.pieces == pieces, "hca_init failed and keeps memory");
	}
}

void objects_cq(struct world *w, struct node *n, struct cq *cq, uint32_t depth)
{
	struct census before = census_of(n);
	int err;

	while ((err = cq_init(cq, &n->hca, depth)))
		call_failed(w, n, "cq_init", &before, -err);
}

struct mr *objects_region(struct world *w, struct node *n, struct pd *pd, void *at, uint32_t length, uint64_t iova,
			  unsigned access)
{
	struct census before = census_of(n);
	struct mr *mr;

	while (!(mr = mr_register(pd, at, length, iova, access)))
		call_failed(w, n, "mr_register", &before, errno);
	return mr;
}

struct qp *objects_qp(struct world *w, struct node *n, const struct qp_needs *needs)
{
	struct census before = census_of(n);
	struct qp *qp;

	while (!(qp = qp_create(&n->hca, needs->pd, needs->send_cq, needs->recv_cq, needs->srq, needs->type,
				&needs->cap, needs->sig_all)))
		call_failed(w, n, "qp_create", &before, errno);
	return qp;
}

struct srq *objects_srq(struct world *w, struct node *n, struct xrcd *xrcd, struct cq *cq, uint32_t depth)
{
	struct census before = census_of(n);
	struct srq *srq;

	while (!(srq = srq_create(&n->hca, &n->pd, xrcd, cq, depth, 2)))
		call_failed(w, n, "srq_create", &before, errno);
	return srq;
}

int objects_modify(struct world *w, struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	uint64_t refused = shortage.refused;
	struct ibv_qp_attr old;
	enum ibv_qp_state from;
	uint32_t mtu;
	int err;

	lock_take(&qp->lock);
	old = qp->attr;
	from = qp->state;
	mtu = qp->mtu;
	while ((err = engine_modify(qp, attr, mask, w->now)) == -ENOMEM) {
		expect(w, NULL, shortage.refused > refused, "engine_modify says ENOMEM, and nothing was refused to it");
		expect(w, NULL, qp->state == from && qp->mtu == mtu && !memcmp(&qp->attr, &old, sizeof(old)),
		       "QP %06x: to state %d, mask %x, failed for want of memory, and has changed the QP",
		       qp->base.qp_num, mask & IBV_QP_STATE ? attr->qp_state : from, mask);
		refused = shortage.refused;
	}
	lock_drop(&qp->lock);
	return err;
}

/* ---- beside what the run is about ---- */

static void more_regions(struct world *w, struct node *n, struct srq *srq)
{
	mr_deregister(objects_region(w, n, &n->pd, &n->counter, sizeof(n->counter), 0x4000, 0));
}

static void more_qps(struct world *w, struct node *n, struct srq *srq)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct qp_needs needs = {
		.pd = &n->pd,
		.send_cq = &n->cq[0],
		.recv_cq = &n->cq[0],
		.type = dice_pick(&w->dice, types),
		.cap = {4, 4, 1, 1, 0},
	};

	qp_destroy(objects_qp(w, n, &needs));
}

static void resize_cq(struct world *w, struct node *n, struct srq *srq)
{
	struct cq *cq = &n->cq[dice_below(&w->dice, 2)];
	struct census before = census_of(n);
	uint32_t depth = (uint32_t)dice_between(&w->dice, 2048, 5000), had = cq->depth;
	int err;

	while ((err = cq_resize(cq, depth))) {
		call_failed(w, n, "cq_resize", &before, -err);
		expect(w, NULL, cq->depth == had, "cq_resize failed: the CQ has %u entries, not %u", cq->depth, had);
	}
}

static void resize_srq(struct world *w, struct node *n, struct srq *srq)
{
	struct census before = census_of(n);
	uint32_t depth = (uint32_t)dice_between(&w->dice, 16, 100), had = srq ? srq->rq.depth : 0;
	int err;

	while (srq && (err = srq_modify(srq, depth, 0, IBV_SRQ_MAX_WR))) {
		call_failed(w, n, "srq_modify", &before, -err);
		expect(w, NULL, srq->rq.depth == had, "srq_modify failed: the SRQ has %u entries, not %u",
		       srq->rq.depth, had);
	}
}

void objects_more(struct world *w, struct node *n, struct srq *srq)
{
	static void (*const doings[])(struct world * w, struct node * n, struct srq * srq) = {more_regions, more_qps,
											      resize_cq, resize_srq};

	if (shortage.chance && dice_chance(&w->dice, 0.05))
		dice_pick(&w->dice, doings)(w, n, srq);
}
