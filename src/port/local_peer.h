/* SPDX-License-Identifier: BSD-2-Clause */
/* A local peer: another process of this user on this host (or this process itself) that QPs of ours are connected to.
 * Packets for it go into the tx ring, what it sends comes out of the rx ring: one ring each, in memory that the
 * producer made. Found by its slot (base/qpn.h).
 *
 * Its life: MEETING (we have called, or been called, or neither yet: packets go by udp), MET (both: packets may go
 * through the rings), GONE (its end of a connection is closed: it died, or wants no more). A local peer that is gone
 * never comes back; another one takes its slot. The memory of its rings goes at once, the struct with the last QP.
 *
 * Locks: local.lock guards the table, `users`, the descriptors and changes of the state. l->receive guards the rx ring;
 * `lock` the tx ring. The state may be read without a lock; MET and GONE stay true of the tx ring while `lock` is held.
 */
#ifndef UROCE_PORT_LOCAL_PEER_H
#define UROCE_PORT_LOCAL_PEER_H

#include <sys/types.h>

#include "base/list.h"
#include "base/lock.h"
#include "link/link.h"
#include "link/record.h"
#include "link/ring.h"
#include "loop/loop.h"

void local_peer_ring(const struct local_peer *n);

/* local_peer_ring() if the local peer is still there. Takes the lock. */
void local_peer_wake(struct local_peer *n);

/* Tells the local peer how far its ring has been read, if it wants to know. With l->receive held. */
void local_peer_tell(struct local_peer *n);

struct loop;
struct qp;
struct reach;

enum local_peer_state {
	LOCAL_PEER_MEETING,
	LOCAL_PEER_MET,
	LOCAL_PEER_GONE,
};

struct local_peer {
	struct link link; /* as others see it: packets are sent with `lock` held, received with l->receive */
	struct loop *loop;
	uint16_t slot;
	pid_t pid;		/* as this process sees it; 0: it cannot. Constant once MET */
	_Atomic uint32_t state; /* enum local_peer_state */
	uint32_t users;		/* paths that point here */
	struct list gone;	/* in local.gone, once it is */

	int out, in;	 /* connections: who called, who was called; -1: not yet. Their end is its end */
	int doorbell;	 /* its eventfd; -1: it has not called yet */
	bool unheard;	 /* it has never looked into the tx ring. Constant once GONE */
	uint32_t shares; /* enum greeting_flag of the other's greeting */
	struct reach
		*reach; /* its memory; NULL: none that can be reached. Constant once MET, there until the struct goes */

	struct ring rx_ring;  /* guarded by l->receive, as is ... */
	const char *expected; /* ... ring_expect()'s, of the tx ring */

	_Alignas(CACHE_LINE) struct lock lock;
	struct ring tx_ring; /* guarded by `lock`, but for ring_is_asleep(), ring_expect() ... */
	uint32_t reserved;   /* ... as this is: bytes of it that datagrams are about to take */
	bool stopped;	     /* ... and this: what was found when somebody last looked ... */
	uint64_t looked;     /* ... at this time, ns */
	struct list stuck;   /* QPs for which it had no room: linked by qp->ready, guarded by hca->ready_lock */
};

static inline enum local_peer_state local_peer_state(const struct local_peer *n)
{
	/* acquire pairs with the release in local.c: who sees MET sees the rings */
	return atomic_load_explicit(&((struct local_peer *)n)->state, memory_order_acquire);
}

extern const struct link_ops local_peer_ops;

static inline struct local_peer *local_peer_of(struct link *link)
{
	return container_of(link, struct local_peer, link);
}

/* All of these with local.lock held. */
struct local_peer *local_peer_create(struct loop *l, uint16_t slot); /* NULL: no memory */
/* Makes the tx ring and calls. 0 or -errno: the state is as before. */
int local_peer_call(struct local_peer *n);
/* It is gone: gives back all but the struct. Its QPs that were stuck are made ready. */
void local_peer_lose(struct local_peer *n);
void local_peer_free(struct local_peer *n);
/* Makes its QPs ready that were stuck for want of room. */
void local_peer_unstick(struct local_peer *n);

/* The next record that the local peer has sent. NULL: there is none; then it is told how far this end got. Inline, as
 * polls that find nothing are what a thread does most. With l->receive held, which has no name here. */
static inline const void *local_peer_peek(struct local_peer *n, uint32_t *bytes)
{
	const void *record = ring_peek(&n->rx_ring, bytes);

	if (!record)
		local_peer_tell(n);
	return record;
}

/* The link's receive(), from that record on, inline with its deliver(). */
static inline __attribute__((always_inline)) uint32_t local_peer_receive(struct local_peer *n, const void *record,
									 uint32_t bytes, uint32_t batch,
									 link_deliver *deliver, void *arg)
{
	struct ring *ring = &n->rx_ring;
	uint32_t count = 0;
	bool more = true;

	do {
		const union ibv_gid *from = NULL;
		struct packet p;

		count++;
		ring_expect(&n->tx_ring, &n->expected);
		ring_fetch(record, bytes);
		if (likely(!record_get(record, bytes, &p, &from))) {
			p.mtu = LOCAL_MTU;
			more = deliver(arg, &p, from);
			if (unlikely(p.pieces))
				count += p.length / LOCAL_MTU; /* as long as so many take */
		}
		ring_consume(ring, bytes);
	} while (more && count < batch && (record = ring_peek(ring, &bytes)));
	return count;
}

#endif
