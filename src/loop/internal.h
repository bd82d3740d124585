/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of loop/ share.
 *
 * The life of a packet that arrives: the thread that holds rx ownership (`receive`) (an application thread that polls,
 * one that waits for an event, or the helper) takes it off a link (receive.c), finds the QP, and hands it to the
 * engine; when the packets of that QP end, it runs the engine and sends what that makes (run.c).
 *
 * Locks: life -> local.lock -> receive -> qp->lock -> {local peer.lock, helper.timer_lock, and the leaves of object/}.
 * life -> helper.watch_lock, under which handlers of loop_watch() run: of these they take qp->lock at most. */
#ifndef UROCE_LOOP_INTERNAL_H
#define UROCE_LOOP_INTERNAL_H

#include <pthread.h>
#include <time.h>

#include "base/clock.h"

#include "engine/engine.h"
#include "loop/gsi.h"
#include "loop/handover.h"
#include "loop/local.h"
#include "loop/loop.h"
#include "loop/steering.h"

/* A link in use; path->port points to it. */
struct port {
	struct loop *loop;
	struct link *link;
	uint32_t users;	 /* paths: guarded by `life` */
	bool raw;	 /* of whole frames: raw.c has it, and counts its users by QPs */
	bool watched;	 /* in the helper's epoll set: guarded by `receive` */
	uint32_t busy;	 /* so many polls look at it, as something came: guarded by `receive`, as is ... */
	uint64_t looked; /* ... when it was looked at last, ... */
	uint64_t heard;	 /* ... and when something was there: ns */
	struct steered steered;

	/* of a multicast group: */
	int netif;	  /* the interface; 0: it is none. Constant */
	uint32_t *member; /* the QPs that get a copy. Guarded by `receive`; written under `life` too, as `ports` is */
	uint32_t members;
};

/* Who sees to it that packets are received and timers served. Changed by the helper thread only. */
enum helper_state {
	HELPER_ARMED,  /* the helper: it sleeps until a packet comes or a timer is due */
	HELPER_GUARD,  /* application threads that poll: it looks from time to time whether they still do */
	HELPER_DRIVEN, /* an application thread that is blocked in loop_wait(); timers are the helper's */
};

struct helper {
	bool running; /* guarded by `life` */
	pthread_t thread;
	int epoll; /* the links (ONESHOT: armed when the helper is), timer, kick, slot, service, watched fds */
	int kick;  /* eventfd: wakes the helper to look around */
	int timer; /* timerfd */
	_Atomic bool stop, flush; /* requests: set before a kick */
	_Atomic uint32_t state;	  /* enum helper_state */
	_Atomic uint32_t drivers; /* threads that are in loop_wait() and receive */

	struct lock timer_lock;	   /* a leaf: timer and timer_at change together */
	_Atomic uint64_t timer_at; /* what the timerfd is set to; NEVER: not. Read without the lock as a hint */

	uint64_t crowded_until; /* ns: others want the thread's processor. The thread's own */
	uint64_t train_at;	/* ns: when a train of packets came last. The thread's own */
	int32_t trains, doubt;	/* how many have come, one soon after the other, and of how few that says little. The
				   thread's own */
	uint64_t wake;		/* ns: what it takes on this machine to be woken. The thread's own */
	bool no_pwait2;		/* there is no epoll_pwait2(2). The thread's own */
	bool lax;		/* it may be woken later than asked for. The thread's own */

	int renew;		/* eventfd: readable while threads that sleep in loop_wait() do not know all ports */
	struct lock renew_lock; /* a leaf: guards what follows */
	uint32_t round;		/* counts changes of the ports */
	uint32_t sleepers, unaware; /* how many sleep; how many of them since before the last change */

	struct lock watch_lock; /* held while a handler runs */
	struct list watches;
	bool not_yet; /* a handler can do nothing yet. The thread's own */
};

#define AT_WORK	   (UINT64_MAX / 2) /* later than all times */
#define YIELD_LONG (500 * USEC)	    /* a sched_yield() that takes longer has let somebody run who does not give way */

struct loop {
	struct hca hca;
	_Atomic bool inert; /* a child's copy, after fork: nothing here is to be touched. Relaxed: set before the
			     * child has threads */
	uint32_t users;	    /* guarded by `life` */
	struct slot slot;
	struct steering steering;
	_Atomic uint32_t budget; /* bytes in flight of all QPs together. Relaxed: an estimate */
	uint32_t processors;

	_Alignas(CACHE_LINE) struct lock receive; /* the tx batch: who holds it receives */
	/* A QP whose peer is a local peer and waits for an ACK: it leaves with the next post, if that has not been
	 * before the next poll that brings nothing for the QP. So in a conversation nobody has to put it into the ready
	 * list and take it out. Set by the rx owner, taken away by anybody. Relaxed: helper_ready() says what the order
	 * rests on */
	_Atomic(struct qp *) delayed_ack;
	bool delayed_ack_again;	 /* set anew since the poll began: guarded by `receive` */
	_Atomic uint32_t offers; /* of the processor, by threads that poll in vain. Relaxed: a hint */
	/* ns: when an application thread made progress, and when one sent what it posted; AT_WORK: one does just now.
	 * Relaxed: hints for the helper, which would only be in its way */
	_Atomic uint64_t last_poll, last_post;
	/* guarded by `receive`; written under `life` too, so either is enough to read */
	struct port **port;
	uint32_t ports;
	bool ports_busy;    /* something has come to one of them lately. Guarded by `receive`, as is ... */
	bool rx_rings_busy; /* ... something has come from a local peer since the ports were looked at */

	/* QPs that sent something within the present and the last tick (about 1 ms): they share the budget. Relaxed:
	 * estimates */
	_Atomic uint32_t tick, active, active_before;

	struct local local;
	struct helper helper;
	struct qp **delegate; /* target.c: guarded by `receive` */
	uint32_t delegates;
	struct handover handover; /* guarded by `receive` */
};

/* loop.c */
extern _Atomic(struct loop *) loop_current;

/* Takes `life`; returns the loop, or NULL. loop_release() in any case. */
struct loop *loop_hold(void);
void loop_release(void);

/* For group.c, in loop_hold(): a new port receives from now on, or is closed and freed, with its link. */
int port_start(struct loop *l, struct port *port);
void port_stop(struct loop *l, struct port *port);

static inline struct loop *loop_of(const struct qp *qp)
{
	return container_of(qp->hca, struct loop, hca);
}

static inline bool loop_is_inert(const struct loop *l)
{
	return atomic_load_explicit(&((struct loop *)l)->inert, memory_order_relaxed);
}

/* The time to within a few milliseconds, not too early, for a fraction of the cost: for time-outs of what is not lost.
 */
static inline uint64_t clock_about(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * SEC + t.tv_nsec + 4 * MSEC;
}

/* run.c */
/* Runs the engine and sends until there is nothing left to send. What may wait (delay_ack) leaves the QP in the
 * ready list. */
void run_qp(struct loop *l, struct qp *qp, uint64_t now, bool delay_ack) REQUIRES(qp->lock);
/* The timer of the QP, if it is due earlier than that is set. */
void set_deadline(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* What a QP may have on its way, in bytes: its share of the buffers between us and our peers. */
uint32_t qp_budget(struct loop *l, struct qp *qp, uint64_t now) REQUIRES(qp->lock);
/* post.c: something small was sent to a local peer: one in so many is noted. */
#define NOTED 32
void note_post(struct loop *l);
/* The QP has something to send that need not go at once. */
void make_ready(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* Runs the QPs that are ready, and the one that is late. True: there were some. */
bool run_ready(struct loop *l, uint64_t now);
/* The latter alone. */
bool delayed_ack_run(struct loop *l, uint64_t now);
bool run_timers(struct loop *l, uint64_t now);

static inline bool has_ready(struct loop *l)
{
	/* a hint: whoever puts a QP there sees to it that somebody looks (helper_ready()) */
	return atomic_load_explicit(&l->hca.has_ready, memory_order_relaxed);
}

/* Whether an ACK waits for a post. A hint as well. */
static inline bool has_delayed_ack(struct loop *l)
{
	struct qp *qp = atomic_load_explicit(&l->delayed_ack, memory_order_relaxed);

	return qp && atomic_load_explicit(&qp->ack_is_delayed, memory_order_relaxed);
}

/* helper.c: a QP was made ready. */
void helper_ready(struct loop *l);

static inline void delayed_ack_clear(struct qp *qp) REQUIRES(qp->lock)
{
	if (atomic_load_explicit(&qp->ack_is_delayed, memory_order_relaxed))
		atomic_store_explicit(&qp->ack_is_delayed, false, memory_order_relaxed);
}

/* With rx ownership, as only packets that come leave something that may wait. False: the place is taken, or the QP is
 * in the list anyway, or this is no conversation: who sends one after the other is not to wait for long. */
static inline bool delayed_ack_set(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	struct qp *delayed_ack = atomic_load_explicit(&l->delayed_ack, memory_order_relaxed);

	if (!qp->req.lossless || qp->is_ready || qp->resp.unacked > 1)
		return false;
	if (delayed_ack != qp && delayed_ack &&
	    atomic_load_explicit(&delayed_ack->ack_is_delayed, memory_order_relaxed))
		return false;
	atomic_store_explicit(&qp->ack_is_delayed, true, memory_order_relaxed);
	if (delayed_ack != qp)
		atomic_store_explicit(&l->delayed_ack, qp, memory_order_relaxed);
	l->delayed_ack_again = true;
	helper_ready(l);
	return true;
}

/* gsi.c */
/* A packet for QP 1: the slot of the process to hand it over to, or 0. */
uint8_t gsi_receive(struct loop *l, const struct packet *p, const union ibv_gid *from, bool handed_over)
	REQUIRES(l->receive);

/* receive.c */
/* What local peers have sent, and about one train from each link; returns the number of packets. `now`: about the time;
 * becomes the time when a link has brought something. */
uint32_t receive_all(struct loop *l, uint64_t *now, struct cq_poller *poller) REQUIRES(l->receive);
/* What other processes hand over. */
bool receive_handover(struct loop *l, uint64_t now) REQUIRES(l->receive);
/* What has come to one port is for others: hands it over. */
void drain_port(void *port);
/* All that a local peer has sent. */
struct local_peer;
void drain_rx_ring(struct loop *l, struct local_peer *n) REQUIRES(l->receive);
/* All of the above that a poll does; `now` is the time. */
bool progress(struct loop *l, uint64_t now);

/* local.c, for the rx owner. */
/* The thread is going to sleep on `doorbells`. True: there is something already. */
bool local_sleep(struct loop *l) REQUIRES(l->receive);
/* Rings may have room again for QPs that were stuck: makes these ready. */
void local_unstick(struct loop *l) REQUIRES(l->receive);

/* helper.c */
int helper_init(struct loop *l);
void helper_fini(struct loop *l);
void helper_close(struct helper *h); /* in a child: the descriptors only */
/* Starts the thread if it does not run. 0 or -errno. */
int helper_start(struct loop *l);
int helper_add(struct loop *l, struct port *port);
int helper_serve(struct loop *l); /* l->steering.service is there now */
/* Watches a descriptor of the local link: for its end, and for what comes on it if `input`; again with another `input`
 * changes that. 0 or -errno. */
int helper_watch_local(struct loop *l, int fd, bool input);
/* It looks around. */
void helper_kick(struct loop *l);
/* A deadline that is earlier than all others was set. */
void helper_deadline(struct loop *l, uint64_t when);
/* At exit: what is ready is sent, if the helper gets to it soon. */
void helper_flush(struct loop *l);
/* Around the time in which a thread receives in place of the helper. */
void helper_drive(struct loop *l);
void helper_leave(struct loop *l, uint64_t now);
/* Around the sleep of such a thread, on the ports and on helper.renew. Returns the round for sleep_end(). */
uint32_t sleep_begin(struct loop *l) REQUIRES(l->receive);
void sleep_end(struct loop *l, uint32_t round);
/* The ports have changed. */
void sleep_renew(struct loop *l) REQUIRES(l->receive);

#endif
