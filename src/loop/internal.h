/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of loop/ share.
 *
 * The path of an incoming packet: the thread that has rx ownership (it holds `receive`: an application thread that
 * polls, one that waits for an event, or the helper) reads it from a link (receive.c), finds the QP and calls the
 * engine. After the last packet of that QP it runs the engine and sends what the engine made (run.c).
 *
 * Locks: life -> local.lock -> receive -> qp->lock -> {local peer.lock, helper.timer_lock, and the leaves of
 * object/}. life -> helper.watch_lock, under which handlers of loop_watch() run: of these locks a handler takes
 * qp->lock at most. */
#ifndef UROCE_LOOP_INTERNAL_H
#define UROCE_LOOP_INTERNAL_H

#include <pthread.h>
#include <time.h>

#include "base/clock.h"

#include "engine/engine.h"
#include "loop/control.h"
#include "loop/gsi.h"
#include "loop/handover.h"
#include "loop/local.h"
#include "loop/loop.h"
#include "loop/poller.h"
#include "loop/steering.h"
#include "loop/waitfd.h"

/* A link in use; path->port points to it. */
struct port {
	struct loop *loop;
	struct link *link;
	uint32_t users;	 /* paths: guarded by `life` */
	bool raw;	 /* carries whole Ethernet frames: raw.c owns it, and counts QPs as its users */
	bool watched;	 /* in the helper's epoll set. Guarded by `receive` */
	uint32_t busy;	 /* the next `busy` polls read it, because something came. Guarded by `receive` */
	uint64_t looked; /* ns: the last time it was read. Guarded by `receive` */
	uint64_t heard;	 /* ns: the last time that something was there. Guarded by `receive` */
	struct steered steered;

	/* of a multicast group: */
	int netif;	  /* the interface; 0: not a group's port. Constant */
	uint32_t *member; /* the QPs that get a copy. Guarded by `receive`; written with `life` held too */
	uint32_t members;
};

/* Which thread receives packets and serves timers. Only the helper thread changes it. */
enum helper_state {
	HELPER_ARMED,  /* the helper. It sleeps until a packet comes or a timer is due */
	HELPER_GUARD,  /* application threads that poll. The helper checks from time to time that they still poll */
	HELPER_DRIVEN, /* an application thread that is blocked in loop_wait(). The helper serves timers only */
};

struct helper {
	bool running; /* guarded by `life` */
	pthread_t thread;
	int epoll; /* the links (ONESHOT: armed when the helper is), timer, kick, slot, service, watched fds */
	int kick;  /* eventfd: wakes the helper to look for work */
	int timer; /* timerfd */
	_Atomic bool stop, flush; /* requests to the helper: set before the kick */
	_Atomic uint32_t state;	  /* enum helper_state */
	_Atomic uint32_t drivers; /* threads that are in loop_wait() and receive */

	struct lock timer_lock;	   /* a leaf: timer and timer_at change together */
	_Atomic uint64_t timer_at; /* what the timerfd is set to; NEVER: not set. Read without the lock as a hint */

	uint64_t crowded_until; /* ns: until then other threads want the helper's processor. The helper's own */
	uint64_t train_at;	/* ns: when the last train of packets came. The helper's own */
	int32_t trains, doubt;	/* consecutive trains, below 0 after a stream ended; the doubt that a new stream starts
				   with. The helper's own */
	uint64_t wake;		/* ns: how long a wake-up takes on this machine. The helper's own */
	uint64_t looked;	/* ns: when it last asked whether a thread that waits receives. The helper's own */
	bool no_pwait2;		/* epoll_pwait2(2) is missing. The helper's own */
	bool lax;		/* a long timer slack is set. The helper's own */

	int renew; /* eventfd: readable while some threads that sleep in loop_wait() do not know all ports */
	struct lock renew_lock;	    /* a leaf: guards the fields below, up to `unaware` */
	uint32_t round;		    /* counts changes of the ports */
	uint32_t sleepers, unaware; /* sleeping threads; those of them that fell asleep before the last change */

	struct lock watch_lock; /* held while a handler runs */
	struct list watches;
	bool not_yet; /* set by a handler that can do nothing yet. The helper's own */

	struct control control;
};

/* waitfd.c: which descriptor of the program's is joined to the doorbell and ports. Guarded by `receive`. */
struct waiting {
	struct waitfd *fd;  /* NULL: none */
	const void *thread; /* that armed it */
	uint32_t others;    /* that this thread has armed since */
	uint32_t apart;	    /* so many more arms do not join one */
	uint32_t spare;	    /* so many more ACKs leave before the thread sleeps: one has waited for an answer in vain */
	uint32_t doubt;	    /* how many left so the last time */
	uint64_t left_at;   /* ns: when one was left to travel with an answer */
};

#define AT_WORK	   (UINT64_MAX / 2) /* later than every real time */
#define YIELD_LONG (500 * USEC)	    /* a longer sched_yield() means that a thread ran that does not yield soon */

struct loop {
	struct hca hca;
	uint32_t users; /* open contexts. Guarded by `life` */
	uint32_t pins;	/* loop_pin(): threads in loop_wait_alone(). Guarded by `life` */
	bool ended;	/* the last context is closed: those threads have to leave. Guarded by `receive` */
	struct slot slot;
	struct steering steering;
	_Atomic uint32_t budget; /* bytes in flight of all QPs together. Relaxed: an estimate */
	uint32_t processors;

	_Alignas(CACHE_LINE) struct lock receive; /* rx ownership: the thread that holds it receives */
	/* A QP with a local peer whose ACK is delayed. The ACK leaves with the next post, or with the next poll
	 * that brings nothing for the QP, whichever is first. So traffic in both directions need not enter and
	 * leave the ready list. Set by the rx owner, cleared by any thread. Relaxed: helper_ready() explains the
	 * order. */
	_Atomic(struct qp *) delayed_ack;
	bool delayed_ack_again;	 /* set again since this poll began. Guarded by `receive` */
	_Atomic uint32_t offers; /* sched_yield() calls of threads that poll and find nothing. Relaxed: a hint */
	/* ns: the last time that an application thread made progress, and that one sent what it posted; AT_WORK:
	 * one is sending now. Relaxed: hints, by which the helper stays out of its way */
	_Atomic uint64_t last_poll, last_post;
	struct poller poller;
	/* Guarded by `receive`; written with `life` held too, so either lock is enough to read. */
	struct port **port;
	uint32_t ports;
	uint64_t looked;    /* ns: when the ports' turn came last. Guarded by `receive` */
	bool ports_busy;    /* one of them has brought something lately. Guarded by `receive` */
	bool rx_rings_busy; /* a local peer has sent something since the ports were last read. Guarded by `receive` */
	struct waiting waiting;

	/* QPs that sent something in this tick and in the last (a tick is about 1 ms): they share the budget.
	 * Relaxed: estimates */
	_Atomic uint32_t tick, active, active_before;

	struct local local;
	struct helper helper;
	struct qp **delegate; /* target.c: guarded by `receive` */
	uint32_t delegates;
	struct handover handover; /* guarded by `receive` */
};

/* loop.c */
extern _Atomic(struct loop *) loop_current;

/* Takes `life`; returns the loop, or NULL. In either case the caller calls loop_release(). */
struct loop *loop_hold(void);
void loop_release(void);

/* The loop, or NULL. It is not freed before loop_unpin(), even if the last context is closed. */
struct loop *loop_pin(void);
void loop_unpin(struct loop *l);

/* For group.c, between loop_hold() and loop_release(). port_start(): a new port receives from now on. port_stop():
 * closes the link and frees the port. */
int port_start(struct loop *l, struct port *port);
void port_stop(struct loop *l, struct port *port);

static inline struct loop *loop_of(const struct qp *qp)
{
	return container_of(qp->hca, struct loop, hca);
}

static inline bool loop_is_inert(const struct loop *l)
{
	return hca_is_inert(&l->hca);
}

/* The time, at most a few ms too late and never too early, for a fraction of the cost. For time-outs of links that
 * lose nothing. */
static inline uint64_t clock_about(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * SEC + t.tv_nsec + 4 * MSEC;
}

/* run.c */
/* What the calling thread needs to run QPs: 0 or -ENOMEM. Other threads make it when they run one, and try again later.
 */
int run_prepare(void);
/* Runs the engine and sends until nothing is left to send. An ACK that may wait (delay_ack) leaves the QP in the
 * ready list. */
void run_qp(struct loop *l, struct qp *qp, uint64_t now, bool delay_ack) REQUIRES(qp->lock);
/* Sets the timer of the QP, if it is not set to an earlier time. */
void set_deadline(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* The bytes that a QP may have in flight: its share of the buffers between this process and its peers. */
uint32_t qp_budget(struct loop *l, struct qp *qp, uint64_t now) REQUIRES(qp->lock);
/* post.c: counts a small post to a local peer: one of NOTED is noted in last_post. */
#define NOTED 32
void note_post(struct loop *l);
/* The QP has something to send that may wait a little. */
void make_ready(struct loop *l, struct qp *qp) REQUIRES(qp->lock);
/* Runs the QPs that are ready, and the QP with a delayed ACK. True: there were some. */
bool run_ready(struct loop *l, uint64_t now);
/* Runs only the QP with a delayed ACK. */
bool delayed_ack_run(struct loop *l, uint64_t now);
bool run_timers(struct loop *l, uint64_t now);

static inline bool has_ready(struct loop *l)
{
	/* a hint: the thread that puts a QP there also calls helper_ready() */
	return atomic_load_explicit(&l->hca.has_ready, memory_order_relaxed);
}

/* Whether an ACK is delayed until the next post. A hint. */
static inline bool has_delayed_ack(struct loop *l)
{
	/* acquire pairs with delayed_ack_set(): the QP may be new */
	struct qp *qp = atomic_load_explicit(&l->delayed_ack, memory_order_acquire);

	return qp && atomic_load_explicit(&qp->ack_is_delayed, memory_order_relaxed);
}

/* helper.c: a QP was made ready. */
void helper_ready(struct loop *l);

static inline void delayed_ack_clear(struct qp *qp) REQUIRES(qp->lock)
{
	if (atomic_load_explicit(&qp->ack_is_delayed, memory_order_relaxed))
		atomic_store_explicit(&qp->ack_is_delayed, false, memory_order_relaxed);
}

/* Needs rx ownership: only a received packet leaves an ACK that may be delayed. False: another QP's ACK is delayed
 * already, the QP is in the ready list, or traffic is one-way, where the sender must not wait for long. */
static inline bool delayed_ack_set(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	struct qp *delayed_ack = atomic_load_explicit(&l->delayed_ack, memory_order_acquire); /* as above */

	if (!qp->req.lossless || qp->is_ready || qp->resp.unacked > 1)
		return false;
	if (delayed_ack != qp && delayed_ack &&
	    atomic_load_explicit(&delayed_ack->ack_is_delayed, memory_order_relaxed))
		return false;
	atomic_store_explicit(&qp->ack_is_delayed, true, memory_order_relaxed);
	if (delayed_ack != qp)
		atomic_store_explicit(&l->delayed_ack, qp, memory_order_release);
	l->delayed_ack_again = true;
	helper_ready(l);
	return true;
}

/* gsi.c */
/* A packet for QP 1. Returns the slot of the process to hand it over to, or 0. */
uint16_t gsi_receive(struct loop *l, const struct packet *p, const union ibv_gid *from, bool handed_over)
	REQUIRES(l->receive);

/* receive.c */
/* Receives all that local peers have sent, and about one train from each link; returns the number of packets.
 * `now`: about the time; set to the time when a link has brought something. */
uint32_t receive_all(struct loop *l, uint64_t *now, struct cq_poller *poller) REQUIRES(l->receive);
/* The same for a thread that was woken: from a port until nothing is left, as an edge-triggered epoll tells of it once;
 * rarely, if local peers have sent something. */
uint32_t receive_now(struct loop *l, uint64_t *now) REQUIRES(l->receive);
/* Receives packets that other processes hand over. False: none. */
bool receive_handover(struct loop *l, uint64_t now) REQUIRES(l->receive);
/* Hands over to their owners the packets that a port still has. */
void drain_port(void *port);
/* At exit(): hands over what has come to the ports' sockets and is for other processes. Takes nothing that is for this
 * one, and no lock but l->receive, for which it does not wait. */
void loop_pass_on(struct loop *l);
/* Receives all that a local peer has sent. */
struct local_peer;
void drain_rx_ring(struct loop *l, struct local_peer *n) REQUIRES(l->receive);
/* wait.c: sleeps until something comes, or for so many ns (less than 1 s). False: another thread receives; or what
 * comes is not expected by rings alone, as `by_rings` demands. */
bool loop_nap(struct loop *l, bool by_rings, uint64_t time);
/* One poll: all of the above. `now` is the time. */
bool progress(struct loop *l, uint64_t now);

/* waitfd.c: a port, or the doorbell, come or go. */
void waitfd_add(struct loop *l, int fd) REQUIRES(l->receive);
void waitfd_remove(struct loop *l, int fd) REQUIRES(l->receive);
/* For the helper: whether a thread that waits for a descriptor by itself has received since that time. */
bool waitfd_receives(struct loop *l, uint64_t since, uint64_t now);

/* local.c, for the rx owner. */
/* Before the thread sleeps on `doorbell`. True: something is there already, so it must not sleep. */
bool local_sleep(struct loop *l) REQUIRES(l->receive);
/* Makes those QPs ready that waited for room in a ring which has room again. */
void local_unstick(struct loop *l) REQUIRES(l->receive);

/* helper.c */
int helper_init(struct loop *l);
void helper_fini(struct loop *l);
void helper_close(struct helper *h); /* in a child: closes the descriptors only */
/* Starts the thread if it does not run. 0 or -errno. */
int helper_start(struct loop *l);
int helper_add(struct loop *l, struct port *port);
int helper_serve(struct loop *l); /* l->steering.service has been opened */
/* Watches a descriptor of the local link: for its end, and if `input`, for data too. A second call with another
 * `input` changes that. 0 or -errno. */
int helper_watch_local(struct loop *l, int fd, bool input);
/* Wakes the helper, which looks for work. */
void helper_kick(struct loop *l);
/* A deadline was set that is earlier than all others. */
void helper_deadline(struct loop *l, uint64_t when);
/* At exit: has the helper send what is ready, and waits a short time for that. */
void helper_flush(struct loop *l);
/* Before and after a thread receives in place of the helper. */
void helper_drive(struct loop *l);
void helper_leave(struct loop *l, uint64_t now);
/* Before and after such a thread sleeps on the ports and on helper.renew. Returns the round for sleep_end(). */
uint32_t sleep_begin(struct loop *l) REQUIRES(l->receive);
void sleep_end(struct loop *l, uint32_t round);
/* The ports have changed: wakes sleeping threads. */
void sleep_renew(struct loop *l) REQUIRES(l->receive);

#endif
