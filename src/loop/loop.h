/* SPDX-License-Identifier: BSD-2-Clause */
/* The loop of a process: the state by which its queue pairs send, receive and wait. The first open context makes it,
 * the last close ends it (progress/life.h). Everything below loop/ knows nothing of it. */
#ifndef UROCE_LOOP_LOOP_H
#define UROCE_LOOP_LOOP_H

#include <pthread.h>
#include <time.h>

#include "base/list.h"
#include "base/lock.h"
#include "engine/engine.h"
#include "host/handover.h"
#include "host/registry.h"
#include "host/slot.h"
#include "host/steering.h"
#include "link/link.h"
#include "loop/control.h"
#include "loop/poller.h"
#include "loop/tuned.h"
#include "object/hca.h"

struct local_peer;
struct loop;
struct waitfd;
struct qp;

/* A connection whose caller has not sent its greeting yet. */
struct caller {
	struct list link;
	int fd;
};

/* Where the next record of a local peer begins, and the mark that says it is there: all that a look touches which finds
 * nothing. */
struct rx_look {
	const _Atomic uint64_t *mark;
	uint64_t due;
};

struct local {
	struct lock lock;
	bool on;
	int listener; /* listening socket; -1: no process can call */
	int doorbell; /* eventfd that local peers write; -1: none. Changed with l->receive held too */
	bool watched; /* `doorbell` is in the helper's epoll set. Guarded by l->receive, as port->watched is */
	struct list callers, gone;
	_Atomic bool called;	   /* some process has been called, so others may write the doorbell */
	_Atomic uint32_t expected; /* number of processes that were called and have not called back. Relaxed: a hint */
	uint64_t looked;	   /* ns: time of the last check whether one has called back */
	struct local_peer *by_slot[SLOTS + 1];
	uint64_t refused[(SLOTS + 1) / 64]; /* slots with which a meeting failed for lack of memory: everything goes by
					       udp there, in both directions */
	_Atomic(struct local_peer *) near[SLOTS + 1]; /* met local peers, by slot. Lock: port/nearby.h */
	struct lock mads_lock;			      /* held while a MAD's sender reads `near` */
	_Atomic uint64_t wanted[(SLOTS + 1) / 64];    /* set of slots to be called; the helper clears the bits */
	_Atomic uint64_t wanted_at[SLOTS + 1];	      /* ns: time of the last such request; 0: never. Relaxed: a hint */

	struct local_peer *rx_ring[2 * (SLOTS + 1)]; /* local peers to receive from. Guarded by l->receive, as these: */
	struct rx_look rx_look[2 * (SLOTS + 1)];     /* of the same */
	uint32_t rx_rings;
	_Atomic bool stuck; /* some local peer has QPs in `stuck`. A hint */
	/* Receives all that a local peer has sent: port/receive.c. Constant. */
	void (*drain)(struct loop *l, struct local_peer *n);
	void (*settle)(struct loop *l); /* settle_all() */
};

static inline bool local_is_stuck(struct local *local)
{
	return atomic_load_explicit(&local->stuck, memory_order_relaxed);
}

/* A link in use; path->port points to it. */
struct port {
	struct loop *loop;
	struct link *link;
	uint32_t users;	 /* number of paths. Guarded by `life` */
	bool raw;	 /* the port carries whole Ethernet frames: raw.c owns it, and counts QPs as its users */
	bool watched;	 /* the port is in the helper's epoll set. Guarded by `receive` */
	uint32_t busy;	 /* number of next polls that read the port, because something came. Guarded by `receive` */
	uint64_t looked; /* ns: time of the last read. Guarded by `receive` */
	uint64_t heard;	 /* ns: time of the last packet. Guarded by `receive` */
	struct steered steered;

	/* Fields of a multicast group's port. */
	int netif;	  /* interface; 0: not a group's port. Constant */
	uint32_t *member; /* QPNs that get a copy. Guarded by `receive`; written with `life` held too */
	uint32_t members;
};

/* The thread that receives packets and serves timers. Only the helper thread changes the state. */
enum helper_state {
	HELPER_ARMED,  /* the helper, which sleeps until a packet comes or a timer is due */
	HELPER_GUARD,  /* application threads that poll; the helper checks from time to time that they still do */
	HELPER_DRIVEN, /* an application thread blocked in loop_wait(); the helper serves timers only */
};

struct helper {
	bool running;		   /* guarded by `life` */
	void *(*main)(void *loop); /* the thread's function: progress/helper_thread.c. Constant */
	pthread_t thread;
	int epoll; /* epoll set: links (ONESHOT: armed when the helper is), timer, kick, slot, service, watched fds */
	int kick;  /* eventfd: wakes the helper to look for work */
	int timer; /* timerfd */
	_Atomic bool stop, flush; /* requests to the helper, set before the kick */
	_Atomic uint32_t state;	  /* enum helper_state */
	_Atomic uint32_t drivers; /* number of threads in loop_wait() that receive */

	struct lock timer_lock;	   /* timer and timer_at change together */
	_Atomic uint64_t timer_at; /* ns: setting of the timerfd; NEVER: not set. Read without the lock as a hint */

	uint64_t crowded_until; /* ns: until this time other threads want the helper's processor. The helper's own */
	uint64_t train_at;	/* ns: time of the last train of packets. The helper's own */
	int32_t trains, doubt;	/* consecutive trains, < 0 after a stream; doubt of a new one. The helper's own */
	uint64_t wake;		/* ns of a wake-up on this machine. The helper's own */
	uint64_t looked;	/* ns: time of the last check whether a waiting thread receives. The helper's own */
	bool no_pwait2;		/* epoll_pwait2(2) is missing. The helper's own */
	bool lax;		/* a long timer slack is set. The helper's own */

	int renew; /* eventfd, readable while some threads that sleep in loop_wait() do not know all ports */
	struct lock renew_lock;	    /* guards the fields below, up to `unaware` */
	uint32_t round;		    /* count of changes of the ports */
	uint32_t sleepers, unaware; /* number of sleeping threads; of those that fell asleep before the last change */

	struct lock watch_lock; /* held while a handler runs */
	struct list watches;
	bool not_yet; /* a handler can do nothing yet. The helper's own */

	struct control control;
};

/* The descriptor of the program's that is joined to the doorbell and the ports: progress/waitfd.c. Guarded by
 * `receive`. */
struct waiting {
	struct waitfd *fd;  /* NULL: none */
	const void *thread; /* the thread that armed `fd` */
	uint32_t others;    /* number of waitfds that this thread has armed since */
	uint32_t apart;	    /* arms left that join no descriptor */
};

#define AT_WORK (UINT64_MAX / 2) /* later than every real time */

struct loop {
	struct hca hca;
	uint32_t users; /* number of open contexts. Guarded by `life` */
	uint32_t pins;	/* threads that use it without a context: loop_pin(). Guarded by `life` */
	bool ended;	/* the last context is closed, so those threads must leave. Guarded by `receive` */
	struct slot slot;
	struct steering steering;
	_Atomic uint32_t budget; /* bytes that all QPs together may have in flight. Relaxed: an estimate */
	uint32_t processors;

	_Alignas(CACHE_LINE) struct lock receive; /* rx ownership: the thread that holds this lock receives */
	_Atomic uint32_t offers; /* count of sched_yield() calls by threads that poll in vain. Relaxed: a hint */
	/* ns: times at which an application thread last made progress, and last sent what it posted; AT_WORK: one is
	 * sending now. Relaxed: hints for the helper, which stays out of the way. */
	_Atomic uint64_t last_poll, last_post;
	struct poller poller;
	/* Guarded by `receive`; written with `life` held too, so either lock is enough to read. */
	struct port **port;
	uint32_t ports;
	uint64_t looked;    /* ns: time of the last poll that might read the ports. Guarded by `receive` */
	uint64_t apart;	    /* ns between such polls: of late, the longest. Guarded by `receive` */
	bool ports_busy;    /* a port has brought something lately. Guarded by `receive` */
	bool rx_rings_busy; /* a local peer has sent something since the ports were last read. Guarded by `receive` */
	_Atomic bool settle_missed; /* run_settling() found that another thread receives. A hint */
	struct waiting waiting;

	/* The current tick of about 1 ms; QPs that sent something in this tick, and in the last: they share the budget.
	 * Relaxed: estimates. */
	_Atomic uint32_t tick, active, active_before;

	struct local local;
	struct helper helper;
	struct qp **delegate; /* QPs of target.c. Guarded by `receive` */
	uint32_t delegates;
	/* Of progress/life.c: called when the last context is closed; when nobody uses the loop any more. */
	void (*end)(struct loop *l);
	void (*free)(struct loop *l);
	struct handover handover; /* guarded by `receive` */
};

extern _Atomic(struct loop *) loop_current;

static inline struct loop *loop_of(const struct qp *qp)
{
	return container_of(qp->hca, struct loop, hca);
}

static inline bool loop_is_inert(const struct loop *l)
{
	return hca_is_inert(&l->hca);
}

/* The time in ns, at most a few ms late and never early, for a fraction of the cost: for time-outs of links that lose
 * nothing. */
static inline uint64_t clock_about(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * SEC + t.tv_nsec + 4 * MSEC;
}

static inline bool has_ready(struct loop *l)
{
	/* a hint: the thread that puts a QP there also calls helper_ready() */
	return atomic_load_explicit(&l->hca.has_ready, memory_order_relaxed);
}

/* Guards the fields that say so. */
extern struct lock loop_life;

/* Takes `loop_life`; returns the loop, or NULL. In either case the caller calls loop_release(). */
struct loop *loop_hold(void) ACQUIRE(loop_life);
void loop_release(void) RELEASE(loop_life);
/* The loop, or NULL. The loop is not freed before loop_unpin(), even if the last context is closed. */
struct loop *loop_pin(void);
void loop_unpin(struct loop *l);
/* True if this process has a loop now. A hint. */
bool loop_exists(void);
/* Drops a user of the loop: a context that is closed (`is_context`), or a thread of loop_pin(). The last one frees the
 * loop. */
void loop_drop_user(struct loop *l, bool is_context);

#endif
