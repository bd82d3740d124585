/* SPDX-License-Identifier: BSD-2-Clause */
/* The local link: the processes of one user on one host (the scope is the network namespace, as that of UDP port 4791)
 * exchange packets through shared memory. Off if UROCE_LOCAL is "off".
 *
 * A QP starts by udp. When it learns its peer (RTR), loop_introduce() looks whether that is a local peer; when the two
 * have met, the QP changes over as soon as nothing of its is on the way (engine_change_link()), or UC before its first
 * packet. A process can be called from when its device is open. So of two QPs that are connected the first one's
 * process calls, the second one's hears that when it connects its own, and they have met before either sends. When the
 * local peer is gone, it changes back, and finds out by its time-outs.
 *
 * Waking: who sleeps says so in its rx rings (ring_sleep), and a producer that finds that rings: one byte on its
 * connection, which makes `doorbells` readable. So does a consumer that has made room in a ring whose producer waits
 * for it (ring_want). Who polls needs nothing. */
#ifndef UROCE_LOCAL_H
#define UROCE_LOCAL_H

#include "base/list.h"
#include "base/lock.h"
#include "loop/slot.h"
#include "object/qp.h"

#define LOCAL_MTU  16384u /* bytes in a packet: large enough to cost little, small enough that two ends work at once */
#define LOCAL_RING (512u << 10)

struct loop;
struct local_peer;
struct tx_batch;

/* Somebody who has called and not yet said who it is. */
struct caller {
	struct list link;
	int fd;
};

struct local {
	struct lock lock;
	bool on;
	int listener;  /* -1: nobody can call */
	int doorbells; /* an epoll set of the connections: readable when one rings. -1: none. Changes under
			* l->receive too */
	bool watched;  /* `doorbells` is in the helper's set: guarded by l->receive, as ports' */
	struct list callers, gone;
	_Atomic uint32_t expected; /* processes that were called and have not called back yet. Relaxed: a hint */
	uint64_t looked;	   /* ns: when somebody looked whether they do */
	struct local_peer *by_slot[SLOTS + 1];
	uint64_t refused[(SLOTS + 1) / 64]; /* slots with which we have failed to meet, for want of memory: all goes by
					     * udp there, theirs too */
	_Atomic(struct local_peer *) near[SLOTS + 1]; /* those that we have met: loop/nearby.h says who may look */
	struct lock mads_lock;			      /* held by who looks there for a MAD: before the local peer's */
	_Atomic uint64_t wanted[(SLOTS + 1) / 64];    /* slots that are to be called: the helper's to clear */
	_Atomic uint64_t wanted_at[SLOTS + 1];	      /* ns: when that was asked for; 0: never. Relaxed: a hint */

	struct local_peer *rx_ring[2 * (SLOTS + 1)]; /* to receive from: guarded by l->receive */
	uint32_t rx_rings;
	_Atomic bool stuck; /* hint: some local peer has QPs in `stuck` */
};

static inline bool local_is_stuck(struct local *local)
{
	return atomic_load_explicit(&local->stuck, memory_order_relaxed);
}

/* From here on others may call; they are heard when there is a port. Failing is no harm: they go on by udp. */
void local_init(struct loop *l);
/* Whether it may be used at all: UROCE_LOCAL. */
bool local_is_wanted(void);
/* There is a port. */
void local_open(struct loop *l);
void local_fini(struct loop *l);
void local_in_child(struct loop *l); /* after fork: closes descriptors */

/* Of the helper: a descriptor that it watches for us has something. */
void local_serve_listener(struct loop *l);
void local_serve_connection(struct loop *l, int fd);
/* Threads that poll need not leave a call that is expected to the helper, which may be long in coming. `now`: about the
 * time. */
void local_look(struct loop *l, uint64_t now);
/* Calls those that datagrams want to go to. */
void local_serve_wanted(struct loop *l);

/* Changes the link of the QP if it is time to. */
void local_meet(struct qp *qp) REQUIRES(qp->lock);

/* How packets of this QP go: through the rings of qp->path.local peer (whose lock is then held), or NULL: by udp.
 * Changes the link of the QP if it is time to. */
struct local_peer *local_enter(struct qp *qp) REQUIRES(qp->lock);
/* What a tx batch may put into the ring. */
uint32_t local_room(struct local_peer *n);
void local_leave(struct qp *qp, struct local_peer *n, bool full) REQUIRES(qp->lock);

/* With the local peer's lock: the QP is run when there is room; the doorbell. */
void local_wait(struct qp *qp, struct local_peer *n) REQUIRES(qp->lock);
/* It does not after all: it is being run. */
void local_wait_no_more(struct qp *qp) REQUIRES(qp->lock);
void local_ring(const struct local_peer *n);
/* The same if it is still there. Takes the lock. */
void local_wake(struct local_peer *n);

/* Whether the other has not even looked at what this QP sent last. */
bool local_is_unseen(const struct qp *qp) REQUIRES(qp->lock);

/* What share_on_release() is to call: memory that local peers have mapped is to be given back. Who sleeps is woken to
 * look. */
void local_released(void *loop);
/* We look whether local peers want memory back: before sleeping, and now and then. */
void local_tidy(struct loop *l);

/* How far we have got in its rx ring, if it wants to know. With l->receive. */
void local_tell(struct local_peer *n);

/* A path that is given up. */
void local_forget(struct path *path);

#endif
