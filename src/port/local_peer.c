/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/local_peer.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "host/introduction.h"
#include "link/record.h"
#include "link/ring.h"
#include "loop/loop.h"
#include "memory/reach.h"

/* A word that other processes read, to test whether they can read our memory. */
static const uint64_t probe = GREETING_MAGIC;

/* ---- the link ---- */

/* Writes packets to the tx ring. The sender has checked the room; a packet without room is lost. */
/* called through link_ops, with peer->lock held */
NO_LOCK_ANALYSIS static uint32_t local_peer_send(struct link *link, const struct link_tx *tx, uint32_t count)
{
	struct local_peer *peer = local_peer_of(link);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t bytes = record_bytes(tx[i].packet);

		if (unlikely(ring_room(&peer->tx_ring, bytes) < bytes))
			continue;
		if (unlikely(!record_put(ring_next(&peer->tx_ring), &tx[i])))
			return i | LINK_UNREADABLE;
		ring_publish(&peer->tx_ring, bytes);
	}
	return count;
}

/* Opening and closing are local.c's; receive.c calls local_peer_receive(). */
const struct link_ops local_peer_ops = {.name = "ring", .send = local_peer_send};

/* ---- creation and end ---- */

struct local_peer *local_peer_create(struct loop *l, uint16_t slot)
{
	struct local_peer *peer = aligned_alloc(_Alignof(struct local_peer), sizeof(*peer));

	if (!peer)
		return NULL;
	*peer = (struct local_peer){
		.link = {&local_peer_ops, .fd = -1}, .loop = l, .slot = slot, .out = -1, .in = -1, .doorbell = -1};
	lock_set_rank(&peer->lock, RANK_LOCAL_PEER);
	list_init(&peer->gone);
	list_init(&peer->stuck);
	return peer;
}

static int loop_local_peer_call(struct local_peer *peer, int memory)
{
	struct greeting g = {.magic = GREETING_MAGIC,
			     .bytes = sizeof(g),
			     .slot = peer->loop->slot.number,
			     .probe = (uintptr_t)&probe};
	int fd[GREETING_FDS] = {memory, -1, -1, -1, peer->loop->local.doorbell};

	if (peer->loop->hca.share) {
		static_assert((int)GREETING_VISITOR - (int)GREETING_TABLES == (int)SHARE_FD_VISITOR, "one order");
		share_fds(peer->loop->hca.share, &fd[GREETING_TABLES]);
		g.flags |= GREETING_HAS_TABLES;
	}
	return introduction_call(peer->slot, &g, fd, &peer->pid);
}

int local_peer_call(struct local_peer *peer)
{
	struct ring ring;
	int memory = ring_memory(LOCAL_RING), fd, err;

	if (memory < 0)
		return memory;
	err = ring_map(&ring, memory);
	fd = err ? err : loop_local_peer_call(peer, memory);
	close(memory); /* the mapping keeps the memory, and so does the greeting until it is read */
	if (fd < 0) {
		if (!err)
			ring_unmap(&ring);
		return fd;
	}
	lock_take(&peer->lock);
	peer->tx_ring = ring;
	peer->out = fd;
	lock_drop(&peer->lock);
	return 0;
}

void local_peer_unstick(struct local_peer *peer)
{
	struct hca *hca = &peer->loop->hca;
	struct list *link;

	lock_take(&hca->ready_lock);
	while ((link = list_pop(&peer->stuck))) {
		list_append(&hca->ready, link);
		atomic_store_explicit(&hca->has_ready, true, memory_order_relaxed); /* a hint */
	}
	lock_drop(&hca->ready_lock);
}

void local_peer_lose(struct local_peer *peer)
{
	lock_take(&peer->lock);
	peer->unheard = !ring_is_attended(&peer->tx_ring);
	/* release pairs with local_peer_state() */
	atomic_store_explicit(&peer->state, LOCAL_PEER_GONE, memory_order_release);
	ring_retire(&peer->tx_ring); /* a thread that just dropped the lock may still read the ring's "asleep" */
	lock_drop(&peer->lock);
	fd_close(&peer->out);
	fd_close(&peer->in);
	fd_close(&peer->doorbell);
	if (peer->reach)
		reach_dead(peer->reach);
	local_peer_unstick(peer);
}

void local_peer_free(struct local_peer *peer)
{
	local_peer_unstick(peer); /* for QPs that wait for room, if any */
	ring_unmap(&peer->tx_ring);
	reach_close(peer->reach);
	free(peer);
}

void local_peer_ring(const struct local_peer *peer)
{
	uint64_t one = 1;

	/* fails only if the doorbell is readable already */
	(void)!write(peer->doorbell, &one, sizeof(one));
}

void local_peer_wake(struct local_peer *peer)
{
	lock_take(&peer->lock);
	if (local_peer_state(peer) == LOCAL_PEER_MET)
		local_peer_ring(peer);
	lock_drop(&peer->lock);
}

void local_peer_tell(struct local_peer *peer)
{
	if (ring_rest(&peer->rx_ring))
		local_peer_ring(peer);
}
