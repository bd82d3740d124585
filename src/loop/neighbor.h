/* A neighbor: another process of this user on this host (or this process itself) that QPs of ours are connected to.
 * Packets for it go into the outlet, what it sends comes out of the inlet: one ring each, in memory that the producer
 * made. Found by its slot, which is the top byte of its QPNs.
 *
 * Its life: MEETING (we have called, or been called, or neither yet: packets go by udp), MET (both: packets may go
 * through the rings), GONE (its end of a connection is closed: it died, or wants no more). A neighbor that is gone never
 * comes back; another one takes its slot. The memory of its rings goes at once, the struct with the last QP.
 *
 * Locks: local.lock guards the table, `users`, the descriptors and changes of the state. l->receive guards the inlet;
 * `lock`, a leaf under qp->lock, the outlet. The state may be read without a lock; MET and GONE stay true of the outlet
 * while `lock` is held.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_NEIGHBOR_H
#define UROCE_NEIGHBOR_H

#include <sys/types.h>

#include "base/list.h"
#include "base/lock.h"
#include "link/ring.h"

struct loop;
struct qp;
struct reach;

enum neighbor_state {
	NEIGHBOR_MEETING,
	NEIGHBOR_MET,
	NEIGHBOR_GONE,
};

struct neighbor {
	struct loop *loop;
	uint8_t slot;
	pid_t pid;	 /* as this process sees it; 0: it cannot. Constant once MET */
	_Atomic uint32_t state; /* enum neighbor_state */
	uint32_t users;	 /* paths that point here */
	struct list link; /* in local.gone, once it is */

	int out, in;	 /* connections: who called, who was called; -1: not yet. Their end is its end */
	uint32_t shares; /* enum greeting_flag of the other's greeting */
	struct reach *reach; /* its memory; NULL: none that can be reached. Constant once MET, there until the struct goes */

	struct ring inlet;	/* guarded by l->receive, as is ... */
	const char *expected; /* ... ring_expect()'s, of the outlet */

	_Alignas(CACHE_LINE) struct lock lock;
	struct ring outlet; /* guarded by `lock`, but for ring_is_asleep(), ring_expect() ... */
	uint32_t reserved;  /* ... as this is: bytes of it that datagrams are about to take */
	bool stopped;	    /* ... and this: what was found when somebody last looked ... */
	uint64_t looked;    /* ... at this time, ns */
	struct list stuck;  /* QPs for which it had no room: linked by qp->ready, guarded by hca->ready_lock */
};

static inline enum neighbor_state neighbor_state(const struct neighbor *n)
{
	/* acquire pairs with the release in local.c: who sees MET sees the rings */
	return atomic_load_explicit(&((struct neighbor *)n)->state, memory_order_acquire);
}

/* All of these with local.lock held. */
struct neighbor *neighbor_create(struct loop *l, uint8_t slot); /* NULL: no memory */
/* Makes the outlet and calls. 0 or -errno: the state is as before. */
int neighbor_call(struct neighbor *n);
/* It is gone: gives back all but the struct. Its QPs that were stuck are made ready. */
void neighbor_lose(struct neighbor *n);
void neighbor_free(struct neighbor *n);

#endif
