/* SPDX-License-Identifier: BSD-2-Clause */
/* A local peer: another process of this user on this host, or this process itself, that QPs of ours are connected to.
 * Packets for it go into the tx ring, packets from it come out of the rx ring. Each ring is in memory that its producer
 * made. Found by its slot (base/qpn.h).
 *
 * Its life: MEETING (one side has called, or none: packets go by udp), MET (both have called: packets may go through
 * the rings), GONE (the peer's end of a connection is closed: the process died, or refuses). A local peer that is gone
 * never comes back; another one takes its slot. The memory of its rings goes at once, the struct with the last QP.
 *
 * Locks: local.lock guards the table, `users`, the descriptors and changes of the state. l->receive guards the rx ring;
 * `lock`, taken under qp->lock, the tx ring. The state may be read without a lock; MET and GONE stay true of the tx
 * ring while `lock` is held. */
#ifndef UROCE_PORT_LOCAL_PEER_H
#define UROCE_PORT_LOCAL_PEER_H

#include <sys/types.h>

#include "base/list.h"
#include "base/lock.h"
#include "link/link.h"
#include "link/record.h"
#include "link/ring.h"
#include "loop/loop.h"

/* Rings the doorbell. With peer->lock or local.lock. */
void local_peer_ring(const struct local_peer *peer);

/* Rings the doorbell if the local peer is still there. Takes the lock. */
void local_peer_wake(struct local_peer *peer);

/* Tells the local peer how far its ring has been read, if the peer wants to know. With l->receive held. */
void local_peer_tell(struct local_peer *peer);

struct loop;
struct qp;
struct reach;

enum local_peer_state {
	LOCAL_PEER_MEETING,
	LOCAL_PEER_MET,
	LOCAL_PEER_GONE,
};

struct local_peer {
	struct link link; /* the link: packets are sent with `lock` held, received with l->receive */
	struct loop *loop;
	uint16_t slot;
	pid_t pid;		/* the process; 0: not visible in this PID namespace. Constant once MET */
	_Atomic uint32_t state; /* enum local_peer_state */
	uint32_t users;		/* number of paths that point here */
	struct list gone;	/* in local.gone, once GONE */

	int out, in;  /* connections: made by our call; by the peer's; -1: none yet. If one hangs up, the local peer is
			 gone */
	int doorbell; /* the peer's eventfd; -1: the peer has not called yet */
	bool unheard; /* the peer has never read the tx ring. Constant once GONE */
	uint32_t shares; /* enum greeting_flag of the peer's greeting */
	struct reach
		*reach; /* the peer's memory; NULL: cannot be mapped. Constant once MET, valid as long as the struct */

	struct ring rx_ring;  /* guarded by l->receive */
	struct rx_look *look; /* in local.rx_look. Guarded by l->receive */
	const char *expected; /* position in the tx ring of ring_expect(). Guarded by l->receive */

	_Alignas(CACHE_LINE) struct lock lock;
	struct ring tx_ring; /* guarded by `lock`, except in ring_is_asleep() and ring_expect() */
	uint32_t reserved;   /* bytes of the tx ring reserved for datagrams. Guarded by `lock` */
	bool stopped;	     /* the process was stopped (SIGSTOP) at the last look. Guarded by `lock` */
	uint64_t looked;     /* ns: time of that look. Guarded by `lock` */
	struct list stuck;   /* QPs that wait for room, linked by qp->ready. Guarded by hca->ready_lock */
};

static inline enum local_peer_state local_peer_state(const struct local_peer *peer)
{
	/* acquire pairs with the release in meet(): a thread that sees MET sees the rings */
	return atomic_load_explicit(&((struct local_peer *)peer)->state, memory_order_acquire);
}

extern const struct link_ops local_peer_ops;

static inline struct local_peer *local_peer_of(struct link *link)
{
	return container_of(link, struct local_peer, link);
}

/* The functions below need local.lock. */
struct local_peer *local_peer_create(struct loop *l, uint16_t slot); /* NULL: no memory */
/* Makes the tx ring and calls the process. 0, or -errno and the state is as before. */
int local_peer_call(struct local_peer *peer);
/* Marks the local peer GONE and frees all but the struct. QPs that waited for room are made ready. */
void local_peer_lose(struct local_peer *peer);
void local_peer_free(struct local_peer *peer);
/* Makes the QPs ready that wait for room. */
void local_peer_unstick(struct local_peer *peer);

/* What has been read of its ring is known. With l->receive held, which has no name here. */
static inline void local_peer_look_on(struct local_peer *peer)
{
	const struct ring *ring = &peer->rx_ring;

	*peer->look = (struct rx_look){&ring_next(ring)->mark, ring->key + ring->at};
}

/* Receives up to `batch` packets from that record of its ring on, as link_ops.receive(), inlined with its deliver(). */
static inline __attribute__((always_inline)) uint32_t local_peer_receive(struct local_peer *peer, const void *record,
									 uint32_t bytes, uint32_t batch,
									 link_deliver *deliver, void *arg)
{
	struct ring *ring = &peer->rx_ring;
	uint32_t count = 0;
	bool more = true;

	do {
		const union ibv_gid *from = NULL;
		struct packet p;

		count++;
		ring_expect(&peer->tx_ring, &peer->expected);
		ring_fetch(record, bytes);
		if (likely(!record_get(record, bytes, &p, &from))) {
			p.mtu = LOCAL_MTU;
			more = deliver(arg, &p, from);
			if (unlikely(p.pieces))
				count += p.length / LOCAL_MTU; /* counts as many packets as take this long */
		}
		ring_consume(ring, bytes);
	} while (more && count < batch && (record = ring_peek(ring, &bytes)));
	if (unlikely(ring_rest(ring)))
		local_peer_ring(peer);
	local_peer_look_on(peer);
	return count;
}

#endif
