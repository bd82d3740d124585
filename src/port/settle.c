/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/settle.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "port/local.h"
#include "port/local_peer.h"
#include "port/run.h"
#include "port/tuned.h"

static void settle_append(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	struct hca *hca = &l->hca;

	lock_take(&hca->ready_lock);
	if (list_empty(&qp->settles))
		list_append(&hca->settling, &qp->settles);
	atomic_store_explicit(&hca->has_settling, true, memory_order_relaxed);
	lock_drop(&hca->ready_lock);
}

NO_LOCK_ANALYSIS /* called by the engine, with qp->lock held */
	void
	settle_later(struct qp *qp)
{
	struct loop *l = loop_of(qp);

	if (loop_is_inert(l))
		return;
	settle_append(l, qp);
	make_ready(l, qp); /* so that somebody looks */
}

/* Takes all, as those that cannot settle now are appended again. */
static void take_settling(struct hca *hca, struct list *all)
{
	struct list *link;

	lock_take(&hca->ready_lock);
	while ((link = list_pop(&hca->settling)))
		list_append(all, link);
	atomic_store_explicit(&hca->has_settling, false, memory_order_relaxed);
	lock_drop(&hca->ready_lock);
}

static struct qp *next_settling(struct hca *hca, struct list *all)
{
	struct list *link;

	lock_take(&hca->ready_lock); /* of all links: qp_destroy() takes QPs out */
	link = list_pop(all);
	lock_drop(&hca->ready_lock);
	return link ? container_of(link, struct qp, settles) : NULL;
}

/* False: a thread of the local peer in that slot is inside of a delivery. `peer` may be gone, unless it is in the list
 * of those whose rings are read. */
static bool settle_peer(struct loop *l, struct local_peer *peer, uint16_t slot) REQUIRES(l->receive)
{
	struct local *local = &l->local;

	if (!share_is_quiet(l->hca.share, slot))
		return false;
	for (uint32_t i = 0; i < local->rx_rings; i++)
		if (local->rx_ring[i] == peer)
			local->drain(l, peer);
	return true;
}

static void settle_one(struct loop *l, struct qp *qp) REQUIRES(l->receive)
{
	struct local_peer *peer = NULL;
	uint16_t slot = 0;
	bool settles;

	/* the QP may have been destroyed: as in run_ready() */
	lock_take(&qp->lock);
	settles = qp->alive && qp->rq.settling;
	if (settles)
		peer = qp->path.local_peer;
	if (peer)
		slot = peer->slot;
	lock_drop(&qp->lock);
	if (!settles)
		return;
	settles = !peer || settle_peer(l, peer, slot);
	lock_take(&qp->lock);
	if (qp->alive && qp->rq.settling && qp->path.local_peer == peer && settles) {
		engine_settled(qp);
	} else if (qp->alive && qp->rq.settling) {
		settle_append(l, qp);
		run_at(l, qp, clock_now() + SETTLE_AGAIN);
	}
	lock_drop(&qp->lock);
}

void settle_all(struct loop *l)
{
	struct list all;
	struct qp *qp;

	list_init(&all);
	take_settling(&l->hca, &all);
	while ((qp = next_settling(&l->hca, &all)))
		settle_one(l, qp);
}
