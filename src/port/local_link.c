/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/local_link.h"

#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/lock.h"
#include "engine/engine.h"
#include "link/ring.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "loop/waiting.h"
#include "memory/reach.h"
#include "object/qp.h"
#include "port/local_peer.h"
#include "port/tuned.h"

/* True if the link may change now. UC has no ACKs that tell when the old link is empty, so UC changes before it has
 * sent anything. */
static bool may_change(const struct qp *qp)
{
	return is_reliable(qp) || qp->req.next.v == (qp->attr.sq_psn & PSN_MASK);
}

static void change_link(struct qp *qp, bool met) REQUIRES(qp->lock)
{
	const struct local_peer *peer = qp->path.local_peer;

	if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE) {
		if (!met && peer && qp->req.lossless && peer->unheard)
			engine_start_over(qp);
		if (!met || may_change(qp))
			engine_change_link(qp, met ? LOCAL_MTU : 0);
	}
	engine_reach(qp, met ? peer->reach : NULL);
}

bool local_is_astray(const struct qp *qp)
{
	const struct local_peer *peer = qp->path.local_peer;
	struct reach_pair pair = engine_pair(qp);

	return peer->reach && reach_contradicts(peer->reach, &pair);
}

/* Changes the link if it is due. True: the QP's peer is in a local peer that has been met. */
static bool local_follow(struct qp *qp) REQUIRES(qp->lock)
{
	struct local_peer *peer = qp->path.local_peer;
	bool met = peer && !qp->path.severed && local_peer_state(peer) == LOCAL_PEER_MET;
	bool wanted = met && !(unlikely(qp->xrc) && qp->xrc->is_passed_on);

	if (unlikely(qp->req.lossless != wanted || qp->req.changing)) {
		met = met && !local_is_astray(qp);
		change_link(qp, wanted && met);
	}
	return met;
}

void local_meet(struct qp *qp)
{
	local_follow(qp);
}

struct local_peer *local_enter(struct qp *qp)
{
	struct local_peer *peer = qp->path.local_peer;

	if (!local_follow(qp))
		return NULL;
	lock_take(&peer->lock);
	if (unlikely(local_peer_state(peer) != LOCAL_PEER_MET)) {
		lock_drop(&peer->lock);
		return NULL;
	}
	lock_hand_over(&peer->lock); /* local_leave() drops it */
	return peer;
}

uint32_t local_room(struct local_peer *peer)
{
	uint32_t room = ring_room(&peer->tx_ring, LOCAL_RING / 2);

	return room > peer->reserved ? room - peer->reserved : 0;
}

void local_wait(struct qp *qp, struct local_peer *peer)
{
	struct hca *hca = qp->hca;
	struct loop *l = peer->loop;

	lock_take(&hca->ready_lock);
	list_remove(&qp->ready);
	list_append(&peer->stuck, &qp->ready);
	lock_drop(&hca->ready_lock);
	qp->loop.is_ready = true;
	atomic_store_explicit(&l->local.stuck, true, memory_order_relaxed); /* a hint, like has_ready */
	helper_ready(l);
}

void local_wait_no_more(struct qp *qp)
{
	lock_take(&qp->hca->ready_lock);
	list_remove(&qp->ready);
	lock_drop(&qp->hca->ready_lock);
	qp->loop.is_ready = false;
}

void local_leave(struct qp *qp, struct local_peer *peer, bool full)
{
	lock_take_over(&peer->lock);
	if (unlikely(full))
		local_wait(qp, peer);
	if (ring_must_wake(&peer->tx_ring))
		local_peer_ring(peer);
	lock_drop(&peer->lock);
}

bool local_is_unseen(const struct qp *qp)
{
	struct local_peer *peer = qp->path.local_peer;
	bool unseen = false;

	if (!peer || !qp->req.lossless)
		return false;
	lock_take(&peer->lock);
	if (local_peer_state(peer) == LOCAL_PEER_MET)
		unseen = !ring_has_passed(&peer->tx_ring, qp->loop.sent_to);
	lock_drop(&peer->lock);
	return unseen;
}

static bool unstick_if_room(struct local_peer *peer)
{
	bool room = true;

	lock_take(&peer->lock);
	if (peer->tx_ring.size)
		room = ring_room(&peer->tx_ring, peer->tx_ring.size) >= RING_AGAIN;
	lock_drop(&peer->lock);
	if (room)
		local_peer_unstick(peer);
	return room;
}

void local_unstick(struct loop *l)
{
	struct local *local = &l->local;
	bool all = true;

	if (likely(!local_is_stuck(local)))
		return;
	atomic_store_explicit(&local->stuck, false, memory_order_relaxed);
	for (uint32_t i = 0; i < local->rx_rings; i++)
		all &= unstick_if_room(local->rx_ring[i]);
	if (!all)
		atomic_store_explicit(&local->stuck, true, memory_order_relaxed);
}

/* Asks for a doorbell when the rings have room for waiting QPs. True: there is room already. */
static bool local_want(struct loop *l) REQUIRES(l->receive)
{
	struct local *local = &l->local;
	bool any = false;

	if (!atomic_load_explicit(&local->stuck, memory_order_relaxed))
		return false;
	for (uint32_t i = 0; i < local->rx_rings; i++) {
		struct local_peer *peer = local->rx_ring[i];

		lock_take(&peer->lock);
		if (peer->tx_ring.size)
			any |= ring_want(&peer->tx_ring, RING_AGAIN) && !list_empty(&peer->stuck);
		lock_drop(&peer->lock);
	}
	return any;
}

static void empty_doorbell(struct loop *l) REQUIRES(l->receive)
{
	uint64_t count;

	if (read(l->local.doorbell, &count, sizeof(count)) == sizeof(count) && l->waiting.fd)
		l->waiting.fd->rung = true;
}

static void tidy(const struct local *local)
{
	for (uint32_t i = 0; i < local->rx_rings; i++)
		if (local_peer_state(local->rx_ring[i]) == LOCAL_PEER_MET && local->rx_ring[i]->reach)
			reach_tidy(local->rx_ring[i]->reach);
}

void local_tidy(struct loop *l)
{
	if (lock_try(&l->receive)) { /* else a thread polls, and the helper retries later */
		tidy(&l->local);
		lock_drop(&l->receive);
	}
}

bool local_sleep(struct loop *l)
{
	struct local *local = &l->local;
	bool any = false;

	/* relaxed: a process that rings has been called, even one that is gone. A stale read is corrected at the next
	 * sleep. */
	if (!atomic_load_explicit(&local->called, memory_order_relaxed))
		return false;
	empty_doorbell(l);
	tidy(local); /* after emptying the doorbell: a later ring wakes this thread again */
	for (uint32_t i = 0; i < local->rx_rings; i++)
		any |= ring_sleep(&local->rx_ring[i]->rx_ring);
	for (uint32_t i = 0; i < local->rx_rings; i++)
		local_peer_tell(local->rx_ring[i]);
	return local_want(l) || any;
}
