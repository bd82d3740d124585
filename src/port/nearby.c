/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/nearby.h"

#include <string.h>

#include "base/clock.h"
#include "base/proc_state.h"
#include "link/record.h"
#include "link/ring.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "port/local_link.h"
#include "port/local_peer.h"
#include "port/transmit.h"
#include "port/tuned.h"

/* Asks the helper to call the slot, as a call takes local.lock. */
static void want(struct loop *l, uint16_t slot, uint64_t now)
{
	_Atomic uint64_t *at = &l->local.wanted_at[slot];
	uint64_t before = atomic_load_explicit(at, memory_order_relaxed);

	/* relaxed: two threads that ask at once do no harm */
	if (before && now < before + CALL_AGAIN)
		return;
	atomic_store_explicit(at, now, memory_order_relaxed);
	/* relaxed: the kick is a system call, and the helper reads the bit after it */
	atomic_fetch_or_explicit(&l->local.wanted[slot / 64], 1ull << slot % 64, memory_order_relaxed);
	helper_kick(l);
}

static struct local_peer *find(struct qp *qp, const struct path *path, uint32_t qpn, uint64_t now)
{
	struct loop *l = loop_of(qp);
	uint16_t slot = hca_owner(&l->hca, qpn);
	struct local_peer *peer;

	if (!slot || !l->local.on || memcmp(&path->sgid, &path->dgid, sizeof(path->sgid)))
		return NULL;
	/* acquire pairs with meet() in local.c */
	peer = atomic_load_explicit(&l->local.near[slot], memory_order_acquire);
	if (!peer)
		want(l, slot, now);
	return peer;
}

static uint32_t bytes_of(uint32_t length)
{
	return ring_round(sizeof(struct record) + sizeof(struct record_datagram) + length);
}

/* With qp->lock held, as for all of a tx batch. */
NO_LOCK_ANALYSIS static enum near_room reserve(struct qp *qp, struct local_peer *near, uint32_t length, bool waits)
{
	uint32_t bytes = bytes_of(length), need;
	enum near_room room = NEAR_GONE;
	struct local_peer *peer = near;

	lock_take(&peer->lock);
	if (likely(local_peer_state(peer) == LOCAL_PEER_MET)) {
		need = peer->reserved + bytes + BATCH_SPARE;
		room = ring_room(&peer->tx_ring, need) >= need ? NEAR_ROOM : NEAR_FULL;
		if (room == NEAR_ROOM)
			peer->reserved += bytes;
		else if (waits)
			local_wait(qp, peer);
		else if (qp->loop.is_ready)
			local_wait_no_more(qp);
	}
	lock_drop(&peer->lock);
	return room;
}

static void release(struct local_peer *near, uint32_t length)
{
	struct local_peer *peer = near;

	lock_take(&peer->lock);
	peer->reserved -= bytes_of(length);
	lock_drop(&peer->lock);
}

static bool is_stopped(struct local_peer *peer) REQUIRES(peer->lock)
{
	uint64_t now = clock_now();

	if (now - peer->looked >= STOPPED_AGAIN) {
		peer->stopped = peer->pid && process_is_stopped(peer->pid);
		peer->looked = now;
	}
	return peer->stopped;
}

/* True if the receiver has not read everything yet. False for a process that sends to itself, whose ring is never empty
 * here. */
static bool is_behind(struct local_peer *near)
{
	struct local_peer *peer = near;
	bool behind;

	if (peer->slot == peer->loop->slot.number)
		return false;
	lock_take(&peer->lock);
	behind = local_peer_state(peer) == LOCAL_PEER_MET && !ring_has_passed(&peer->tx_ring, peer->tx_ring.at) &&
		 !is_stopped(peer);
	lock_drop(&peer->lock);
	return behind;
}

const struct near_ops nearby_ops = {find, reserve, release, is_behind};

bool nearby_send(struct local_peer *peer, const struct link_tx *tx)
{
	bool readable = true;

	lock_take(&peer->lock);
	peer->reserved -= ring_round(record_bytes(tx->packet));
	if (likely(local_peer_state(peer) == LOCAL_PEER_MET)) {
		readable = transmit(&peer->link, tx, 1) <= 1;
		if (ring_must_wake(&peer->tx_ring))
			local_peer_ring(peer);
	}
	lock_drop(&peer->lock);
	return readable;
}

bool nearby_put(struct local_peer *peer, const struct link_tx *tx)
{
	bool room;

	lock_take(&peer->lock);
	room = local_peer_state(peer) == LOCAL_PEER_MET && local_room(peer) >= ring_round(record_bytes(tx->packet));
	if (room) {
		transmit(&peer->link, tx, 1);
		if (ring_must_wake(&peer->tx_ring))
			local_peer_ring(peer);
	}
	lock_drop(&peer->lock);
	return room;
}

bool nearby_answer(struct local_peer *peer, const struct packet *p, const uint8_t *here, const union ibv_gid *there)
{
	return nearby_put(peer, &(struct link_tx){.packet = p, .sgid = (const union ibv_gid *)here, .dgid = there});
}

bool nearby_send_mad(struct loop *l, uint16_t slot, const struct link_tx *mad)
{
	struct local *local = &l->local;
	struct local_peer *peer;
	bool sent;

	lock_take(&local->mads_lock);
	/* acquire pairs with meet() in local.c */
	peer = atomic_load_explicit(&local->near[slot], memory_order_acquire);
	sent = peer && nearby_put(peer, mad);
	lock_drop(&local->mads_lock);
	return sent;
}
