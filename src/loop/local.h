/* SPDX-License-Identifier: BSD-2-Clause */
/* The local link: the processes of one user on one host exchange packets through shared memory. The scope is the
 * network namespace, as that of UDP port 4791. UROCE_LOCAL=off turns it off. The loop owns it.
 *
 * A QP starts by udp. When it learns its peer (RTR), loop_introduce() checks whether that is a local peer. When the
 * two have met, the QP changes over as soon as it has nothing in flight (engine_change_link()), or for UC, before
 * its first packet. A process can be called once its device is open. So of two connected QPs the first one's
 * process calls, the second one's process sees the call when it connects its own QP, and they have met before
 * either sends. When the local peer is gone, the QP changes back, and its time-outs resend what was lost.
 *
 * Waking: a thread that sleeps says so in its rx rings (ring_sleep). A producer that sees this rings the doorbell:
 * the eventfd of the process that sleeps. A consumer that has made room in a ring whose
 * producer waits for it does the same (ring_want). A thread that polls needs no doorbell. */
#ifndef UROCE_LOCAL_H
#define UROCE_LOCAL_H

#include "base/list.h"
#include "base/lock.h"
#include "loop/slot.h"
#include "object/qp.h"

#define LOCAL_MTU  16384u /* bytes in a packet: large enough to cost little, small enough for both ends to overlap */
#define LOCAL_RING (512u << 10)

struct loop;
struct local_peer;
struct tx_batch;

/* A connection whose caller has not sent its greeting yet. */
struct caller {
	struct list link;
	int fd;
};

struct local {
	struct lock lock;
	bool on;
	int listener; /* -1: no process can call */
	int doorbell; /* an eventfd that local peers write. -1: none. Changed with l->receive held too */
	bool watched; /* `doorbell` is in the helper's epoll set. Guarded by l->receive, as port->watched is */
	struct list callers, gone;
	_Atomic bool called;	   /* some process has been called, so others can write the doorbell */
	_Atomic uint32_t expected; /* processes that were called and have not called back yet. Relaxed: a hint */
	uint64_t looked;	   /* ns: the last check whether one has called back */
	struct local_peer *by_slot[SLOTS + 1];
	uint64_t refused[(SLOTS + 1) / 64]; /* slots with which a meeting failed for lack of memory: everything goes by
					       udp there, in both directions */
	_Atomic(struct local_peer *) near[SLOTS + 1]; /* those met: loop/nearby.h says which lock a reader needs */
	struct lock mads_lock; /* held while a MAD's sender reads `near`: taken before the local peer's lock */
	_Atomic uint64_t wanted[(SLOTS + 1) / 64]; /* slots to be called: the helper clears the bits */
	_Atomic uint64_t wanted_at[SLOTS + 1];	   /* ns: when that call was asked for; 0: never. Relaxed: a hint */

	struct local_peer *rx_ring[2 * (SLOTS + 1)]; /* local peers to receive from. Guarded by l->receive */
	uint32_t rx_rings;
	_Atomic bool stuck; /* hint: some local peer has QPs in `stuck` */
};

static inline bool local_is_stuck(struct local *local)
{
	return atomic_load_explicit(&local->stuck, memory_order_relaxed);
}

/* From here on others may call; the calls are answered when there is a port. Failure does no harm: all goes by udp. */
void local_init(struct loop *l);
/* Whether UROCE_LOCAL allows the local link at all. */
bool local_is_wanted(void);
/* Called when a port has been opened. */
void local_open(struct loop *l);
void local_fini(struct loop *l);
void local_in_child(struct loop *l); /* after fork: closes descriptors */

/* For the helper: a descriptor of the local link that it watches is readable. */
void local_serve_listener(struct loop *l);
void local_serve_connection(struct loop *l, int fd);
/* For threads that poll: answers a call that is expected. The helper may take long to answer it. `now`: about the
 * time. */
void local_look(struct loop *l, uint64_t now);
/* Calls the processes that datagrams are to be sent to. */
void local_serve_wanted(struct loop *l);

/* True if the QP's peer, which is in a local peer that has been met, is known to have other addresses or to be
 * connected to another QP: by UDP its packets would be dropped. */
bool local_is_astray(const struct qp *qp) REQUIRES(qp->lock);

/* Changes the link of the QP if it is time to. */
void local_meet(struct qp *qp) REQUIRES(qp->lock);

/* Decides how packets of this QP go: through the rings of qp->path.local_peer, whose lock is then held until
 * local_leave(); or NULL: by udp. Changes the link of the QP if it is time to. */
struct local_peer *local_enter(struct qp *qp) REQUIRES(qp->lock);
/* The bytes that a tx batch may put into the ring. */
uint32_t local_room(struct local_peer *n);
void local_leave(struct qp *qp, struct local_peer *n, bool full) REQUIRES(qp->lock);

/* The local peer's lock is held in the functions below. local_wait(): the QP is run when the ring has room.
 * local_ring(): rings the doorbell. */
void local_wait(struct qp *qp, struct local_peer *n) REQUIRES(qp->lock);
/* The QP is being run, so it waits no longer. */
void local_wait_no_more(struct qp *qp) REQUIRES(qp->lock);
void local_ring(const struct local_peer *n);
/* local_ring() if the local peer is still there. Takes the lock. */
void local_wake(struct local_peer *n);

/* Whether the local peer has not read yet what this QP sent last. */
bool local_is_unseen(const struct qp *qp) REQUIRES(qp->lock);

/* The callback of share_on_release(): memory that local peers have mapped is to be given back. Wakes those that
 * sleep, so that they see it. */
void local_released(void *loop);
/* Gives memory back that local peers ask for. Called before sleeping, and now and then. */
void local_tidy(struct loop *l);

/* Tells the local peer how far its ring has been read, if it wants to know. With l->receive held. */
void local_tell(struct local_peer *n);

/* The path is no longer used. */
void local_forget(struct path *path);

#endif
