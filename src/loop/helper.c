/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper thread: receives and serves timers when no application thread does, and sleeps when nothing is due.
 *
 * ARMED: the links are armed in its epoll set. A packet or the timer wakes it. It works until nothing more comes;
 * then it arms the links again.
 *
 * GUARD: application threads poll. The links are not armed (they fired once, EPOLLONESHOT), so packets wake no
 * thread. The helper checks after 50 us, 100 us, ... 0.8 ms whether a thread still polls; if none does, it takes
 * over. Where a wake-up takes more than 20 us, all these times are longer in proportion: a thread from which the
 * helper took the processor meanwhile cannot have polled, and would spend most of its time making way for the
 * helper. If a thread polls for good, each check waits for the next tick of the processor, 4 ms more at most.
 *
 * DRIVEN: an application thread is blocked in loop_wait() and receives. The helper serves the timers only. A thread
 * that leaves loop_wait() makes the helper look for work within 1 ms.
 *
 * No wake-up is lost: a thread that sets the earliest deadline (helper_deadline), or leaves something to be sent
 * later (helper_ready), first does that and then reads the state, by a read-modify-write. The helper enters a state
 * by an exchange, and then reads deadlines and the ready list. Whichever comes second in the state's modification
 * order sees what the other did. */
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "loop/internal.h"
#include "loop/callers.h"
#include "base/high_fd.h"
#include "base/log.h"
#include "memory/shareable.h"

#define WAKE_LEAST     (20 * USEC)  /* duration of a wake-up: at least, on a fast machine, ... */
#define WAKE_MOST      (200 * USEC) /* ... and at most, in an emulated machine; more than that means a busy processor */
#define POLL_RECENT(h) ((h)->wake)  /* a thread that polled within this time polls still ... */
#define POST_RECENT(h) ((h)->wake * 5 / 2) /* ... or, if it has sent since, it will poll again ... */
#define POST_LONG(h)   ((h)->wake * 25)	   /* ... unless it does nothing but send */
#define GUARD_FIRST(h) ((h)->wake * 5 / 2)
#define GUARD_SURE     3u	   /* steps, each twice as long: after these a thread seems to poll for good ... */
#define GUARD_LAST     5u	   /* ... and no step is longer than this one */
#define PRECISE	       1000ul	   /* timer slack, ns; ... */
#define LAX	       4000000ul   /* ... the same if a thread polls for good: see be_lax() */
#define LEAVE_LOOK     (1 * MSEC)  /* after a thread has left loop_wait() */
#define READY_DELAY    (50 * USEC) /* how long a ready QP waits at most for an application thread to run it */
#define ANSWER_DELAY   (10 * USEC) /* ... and how long while the helper is awake */
#define SPIN	       (20 * USEC) /* before sleeping: about the cost of a wake-up */
#define STREAM                                                                                                        \
	(200 * USEC) /* from one train to the next, of a sender that goes on: the helper polls for it as long as this \
		      */
#define TRAIN_LEAST  8u			/* packets: a shorter train does not count */
#define STREAM_SURE  8			/* consecutive trains that make a stream; ... */
#define STREAM_LONG  (STREAM_SURE + 64) /* ... that make a long one. After a long one, ... */
#define STREAM_DOUBT 32			/* ... the next stream needs as many more trains, ... */
#define DOUBT_MOST   4096		/* ... and twice as many after each stream that was short, up to this */
#define CROWDED	     64			/* after a long yield, the helper does not spin for as many times its length */
#define NOT_YET	     (50 * USEC)	/* between two calls of a handler that can do nothing yet */
#define SLICE	     (100 * USEC)	/* of processor time, so that the woken helper preempts a thread that spins */
#define EVENTS	     16

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441 /* Linux 5.11; the same on all architectures */
#endif

enum source {
	SOURCE_PORT,
	SOURCE_TIMER,
	SOURCE_KICK,
	SOURCE_SLOT,
	SOURCE_SERVICE,
	SOURCE_LISTENER, /* of the local link */
	SOURCE_CONNECTION,
	SOURCE_DOORBELL,
	SOURCE_WATCH,
	SOURCE_CONTROL,
};

struct watch {
	struct list link; /* guarded by watch_lock */
	int fd;
	void (*handler)(void *arg);
	void *arg;
};

/* ---- its descriptors ---- */

static int helper_control(struct helper *h, int op, enum source source, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.u64 = (uint64_t)source << 32 | (uint32_t)fd};

	return epoll_ctl(h->epoll, op, fd, &e) ? -errno : 0;
}

void helper_close(struct helper *h)
{
	callers_end();
	close(h->epoll);
	close(h->renew);
	close(h->kick);
	close(h->timer);
}

int helper_init(struct loop *l)
{
	struct helper *h = &l->helper;
	int err;

	list_init(&h->watches);
	atomic_init(&h->timer_at, NEVER);
	h->wake = WAKE_LEAST;
	h->doubt = STREAM_DOUBT;
	h->epoll = high_fd(epoll_create1(EPOLL_CLOEXEC));
	h->kick = high_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	h->renew = high_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	h->timer = high_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (h->epoll < 0 || h->kick < 0 || h->renew < 0 || h->timer < 0)
		err = -errno;
	else
		err = helper_control(h, EPOLL_CTL_ADD, SOURCE_KICK, h->kick, EPOLLIN)
		      ?: helper_control(h, EPOLL_CTL_ADD, SOURCE_TIMER, h->timer, EPOLLIN)
		      ?: helper_control(h, EPOLL_CTL_ADD, SOURCE_SLOT, l->slot.fd, EPOLLIN);
	if (err)
		helper_close(h);
	else
		callers_begin();
	return err;
}

static int arm_port(struct helper *h, struct port *port)
{
	int err = helper_control(h, port->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, SOURCE_PORT, port->link->fd,
				 EPOLLIN | EPOLLONESHOT);

	port->watched |= !err;
	return err;
}

int helper_add(struct loop *l, struct port *port)
{
	int err;

	lock_take(&l->receive);
	err = arm_port(&l->helper, port);
	lock_drop(&l->receive);
	return err;
}

int helper_serve(struct loop *l)
{
	if (l->steering.service < 0)
		return 0;
	return helper_control(&l->helper, EPOLL_CTL_ADD, SOURCE_SERVICE, l->steering.service, CALLERS_EVENTS);
}

int helper_watch_local(struct loop *l, int fd, bool input)
{
	bool listens = fd == l->local.listener;
	enum source source = listens ? SOURCE_LISTENER : SOURCE_CONNECTION;
	uint32_t events = listens ? CALLERS_EVENTS : EPOLLRDHUP | (input ? EPOLLIN : 0);
	int err = helper_control(&l->helper, EPOLL_CTL_ADD, source, fd, events);

	return err == -EEXIST ? helper_control(&l->helper, EPOLL_CTL_MOD, source, fd, events) : err;
}

static void arm_doorbell(struct loop *l) REQUIRES(l->receive)
{
	struct local *local = &l->local;

	if (local->doorbell < 0)
		return;
	local->watched |= !helper_control(&l->helper, local->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, SOURCE_DOORBELL,
					  local->doorbell, EPOLLIN | EPOLLONESHOT);
	if (local_sleep(l)) {
		helper_kick(l);
		sleep_renew(l); /* a thread that came to receive may have missed the doorbell just emptied */
	}
}

static void signal_fd(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void kick(struct helper *h)
{
	signal_fd(h->kick);
}

static void empty(int fd)
{
	uint64_t count;

	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

void helper_kick(struct loop *l)
{
	kick(&l->helper);
}

/* ---- the timer ---- */

static void helper_set_timer(struct helper *h, uint64_t when)
{
	/* may read a stale value only before the helper's next exchange of the state: see the top of the file */
	if (atomic_load_explicit(&h->timer_at, memory_order_relaxed) <= when)
		return;
	lock_take(&h->timer_lock);
	if (atomic_load_explicit(&h->timer_at, memory_order_relaxed) > when) {
		struct itimerspec at = {.it_value = {when / SEC, when % SEC}};

		timerfd_settime(h->timer, TFD_TIMER_ABSTIME, &at, NULL);
		atomic_store_explicit(&h->timer_at, when, memory_order_relaxed);
	}
	lock_drop(&h->timer_lock);
}

static void timer_fired(struct helper *h)
{
	lock_take(&h->timer_lock);
	empty(h->timer);
	atomic_store_explicit(&h->timer_at, NEVER, memory_order_relaxed);
	lock_drop(&h->timer_lock);
}

/* ---- requests of other threads ---- */

static enum helper_state read_state(struct helper *h)
{
	/* pairs with helper_enter(): a read-modify-write, see the top of the file */
	return atomic_fetch_add_explicit(&h->state, 0, memory_order_acq_rel);
}

static void helper_enter(struct helper *h, enum helper_state state)
{
	atomic_exchange_explicit(&h->state, state, memory_order_acq_rel); /* pairs with read_state() */
}

static uint32_t drivers(struct helper *h)
{
	/* acquire pairs with the release in helper_leave(): a hint otherwise */
	return atomic_load_explicit(&h->drivers, memory_order_acquire);
}

void helper_deadline(struct loop *l, uint64_t when)
{
	if (read_state(&l->helper) != HELPER_GUARD)
		helper_set_timer(&l->helper, when);
}

void helper_ready(struct loop *l)
{
	/* in GUARD the helper looks soon; a thread in loop_wait() sends before it sleeps, or has the helper look
	 * when it leaves */
	if (read_state(&l->helper) == HELPER_ARMED && !drivers(&l->helper))
		helper_set_timer(&l->helper, clock_now() + READY_DELAY);
}

void helper_drive(struct loop *l)
{
	atomic_fetch_add_explicit(&l->helper.drivers, 1, memory_order_relaxed); /* a hint: a stale read does no harm */
}

void helper_leave(struct loop *l, uint64_t now)
{
	atomic_fetch_sub_explicit(&l->helper.drivers, 1, memory_order_release); /* pairs with drivers() */
	helper_set_timer(&l->helper, now + LEAVE_LOOK);
}

uint32_t sleep_begin(struct loop *l)
{
	struct helper *h = &l->helper;
	uint32_t round;

	lock_take(&h->renew_lock);
	h->sleepers++;
	round = h->round;
	lock_drop(&h->renew_lock);
	return round;
}

void sleep_end(struct loop *l, uint32_t round)
{
	struct helper *h = &l->helper;

	lock_take(&h->renew_lock);
	h->sleepers--;
	if (round != h->round && --h->unaware == 0)
		empty(h->renew);
	lock_drop(&h->renew_lock);
}

void sleep_renew(struct loop *l)
{
	struct helper *h = &l->helper;

	lock_take(&h->renew_lock);
	h->round++;
	h->unaware = h->sleepers;
	if (h->unaware)
		signal_fd(h->renew);
	lock_drop(&h->renew_lock);
}

void helper_flush(struct loop *l)
{
	struct helper *h = &l->helper;

	atomic_store_explicit(&h->flush, true, memory_order_release); /* pairs with serve_kick() */
	kick(h);
	for (int i = 0; i < 200 && (has_ready(l) || has_delayed_ack(l)); i++)
		nanosleep(&(struct timespec){.tv_nsec = 100 * USEC}, NULL);
}

/* ---- the thread ---- */

/* Has the links wake the helper, also for what is there already. */
static void helper_arm(struct loop *l)
{
	struct helper *h = &l->helper;

	helper_enter(h, HELPER_ARMED);
	lock_take(&l->receive);
	for (uint32_t i = 0; i < l->ports; i++)
		arm_port(h, l->port[i]);
	arm_doorbell(l);
	lock_drop(&l->receive);
	if (has_ready(l) || has_delayed_ack(l))
		helper_set_timer(h, clock_now() + READY_DELAY);
	helper_set_timer(h, timers_next(&l->hca.timers));
}

/* Even a link that has fired costs each sender 0.1 us or more per packet while it is in an epoll set. */
static void unwatch_ports(struct loop *l)
{
	lock_take(&l->receive);
	for (uint32_t i = 0; i < l->ports; i++) {
		if (l->port[i]->watched)
			epoll_ctl(l->helper.epoll, EPOLL_CTL_DEL, l->port[i]->link->fd, NULL);
		l->port[i]->watched = false;
	}
	if (l->local.watched)
		epoll_ctl(l->helper.epoll, EPOLL_CTL_DEL, l->local.doorbell, NULL);
	l->local.watched = false;
	lock_drop(&l->receive);
}

static void let_drive(struct loop *l, uint64_t now)
{
	helper_enter(&l->helper, HELPER_DRIVEN);
	run_timers(l, now);
	helper_set_timer(&l->helper, timers_next(&l->hca.timers));
	if (!drivers(&l->helper)) /* it has left meanwhile */
		helper_set_timer(&l->helper, now + LEAVE_LOOK);
}

static uint64_t last_poll(struct loop *l)
{
	return atomic_load_explicit(&l->last_poll, memory_order_relaxed); /* a hint */
}

static bool application_polls(struct loop *l, uint64_t now)
{
	const struct helper *h = &l->helper;
	uint64_t polled = last_poll(l), posted = atomic_load_explicit(&l->last_post, memory_order_relaxed); /* a hint */

	return now < polled + POLL_RECENT(h) || (now < posted + POST_RECENT(h) && now < polled + POST_LONG(h));
}

/* True: another thread wanted this processor and will again. Spinning would take time from it, and a yield would
 * cost the helper a whole slice of its time. */
static bool helper_is_crowded(struct helper *h, uint64_t now)
{
	uint64_t back;

	if (now < h->crowded_until)
		return true;
	sched_yield();
	back = clock_now();
	if (back - now > YIELD_LONG)
		h->crowded_until = back + CROWDED * (back - now);
	return false;
}

/* Trains come in quick succession, and no thread here has to do anything for the next one to come. Polling for it
 * without a pause costs other threads of this processor little, as the scheduler gives them their share; a yield
 * would give them a whole slice and no less. Sleeping costs the sender, which must wake the helper each time, as
 * much as half a train. Where the next train waits for other threads to run here, streams are short, and doubt
 * grows. */
static bool is_stream(const struct helper *h)
{
	return h->trains > STREAM_SURE;
}

static void note_packets(struct helper *h, uint32_t n, uint64_t now)
{
	if (n < TRAIN_LEAST)
		return;
	if (now - h->train_at < STREAM && h->trains < STREAM_LONG)
		h->trains++;
	h->train_at = now;
}

static void helper_end_stream(struct helper *h)
{
	h->doubt = h->trains == STREAM_LONG ? STREAM_DOUBT : min_of(h->doubt * 2, DOUBT_MOST);
	h->trains = -h->doubt;
}

/* Nothing has come for `quiet` ns. True: it is time to sleep. */
static bool is_over(struct helper *h, uint64_t quiet)
{
	if (likely(!is_stream(h)))
		return quiet >= SPIN;
	if (quiet < STREAM)
		return false;
	helper_end_stream(h);
	return true;
}

/* Works until nothing has come for a while, or an application thread takes over. True: it is still the helper's
 * work. */
static bool work(struct loop *l, uint64_t start)
{
	uint64_t quiet = start, now = start;

	while (!drivers(&l->helper) && last_poll(l) <= start) {
		uint32_t n = 0;

		if (lock_try(&l->receive)) {
			n = receive_all(l, &now, NULL);
			local_unstick(l);
			lock_drop(&l->receive);
			note_packets(&l->helper, n, now);
		}
		if (run_timers(l, now) || n) {
			quiet = now;
		} else if (!is_stream(&l->helper) && helper_is_crowded(&l->helper, clock_now())) {
			run_ready(l, clock_now()); /* it may be long until the next chance */
			return true;
		}
		now = clock_now();
		if (now - quiet >= ANSWER_DELAY)
			run_ready(l, now);
		if (is_over(&l->helper, now - quiet))
			return true;
	}
	return false;
}

/* Whether a thread that waits for a descriptor by itself has received since the last look. */
static bool helper_is_spared(struct loop *l, uint64_t now)
{
	struct helper *h = &l->helper;
	bool spared = waitfd_receives(l, h->looked, now);

	h->looked = now;
	if (spared)
		run_timers(l, now);
	return spared;
}

/* Chooses the next state; `step` counts the times in GUARD in succession. Returns the next step; 0: wait for an
 * event. */
static uint32_t helper_look(struct loop *l, uint32_t step)
{
	struct helper *h = &l->helper;
	uint64_t now = clock_now();
	bool polls = application_polls(l, now);
	uint32_t excused = polls || drivers(h) ? 0 : poller_waits(&l->poller, now, last_poll(l));

	if (polls)
		poller_polls(&l->poller, step > GUARD_SURE);
	else if (!excused && !drivers(h) && !helper_is_spared(l, now) && work(l, now)) {
		helper_arm(l);
		return 0;
	}
	if (drivers(h)) {
		let_drive(l, now);
		return 0;
	}
	local_tidy(l);
	helper_enter(h, HELPER_GUARD);
	if (step == GUARD_SURE)
		unwatch_ports(l);
	if (excused) /* look again soon: it may compute by then */
		step = step ? GUARD_SURE - 2 + excused : 0;
	return min_of(step + 1, GUARD_LAST);
}

static void serve_slot(struct loop *l)
{
	lock_take(&l->receive);
	for (int i = 0; i < EVENTS && receive_handover(l, clock_now()); i++)
		;
	lock_drop(&l->receive);
}

static void serve_kick(struct loop *l)
{
	empty(l->helper.kick);
	if (atomic_load_explicit(&l->helper.flush, memory_order_acquire)) /* pairs with helper_flush() */
		run_ready(l, clock_now());
	local_serve_wanted(l);
}

/* With a long slack, a step ends at the next tick. A timer interrupt of its own costs a thread that polls on this
 * processor 60 us in a virtual machine, a sixteenth of its time in all. */
static void be_lax(struct helper *h, bool lax)
{
	if (h->lax != lax)
		prctl(PR_SET_TIMERSLACK, lax ? LAX : PRECISE);
	h->lax = lax;
}

static void serve_watch(struct loop *l, int fd)
{
	struct helper *h = &l->helper;

	lock_take(&h->watch_lock);
	list_each (i, &h->watches) {
		struct watch *w = container_of(i, struct watch, link);

		if (w->fd == fd) {
			w->handler(w->arg);
			break;
		}
	}
	lock_drop(&h->watch_lock);
	if (h->not_yet) { /* without the lock: other threads would hardly ever get it */
		be_lax(h, false);
		nanosleep(&(struct timespec){.tv_nsec = NOT_YET}, NULL);
	}
	h->not_yet = false;
}

static void serve_control(struct helper *h, int fd)
{
	if (fd != h->control.listener) {
		control_serve(&h->control, fd);
		return;
	}
	while ((fd = control_accept(&h->control)) != -EAGAIN)
		if (fd >= 0)
			helper_control(h, EPOLL_CTL_ADD, SOURCE_CONTROL, fd, EPOLLIN);
}

/* True: check what the application threads do. */
static bool loop_helper_serve(struct loop *l, enum source source, int fd)
{
	switch (source) {
	case SOURCE_PORT:
	case SOURCE_DOORBELL:
		return true;
	case SOURCE_TIMER:
		timer_fired(&l->helper);
		return true;
	case SOURCE_KICK:
		serve_kick(l);
		return true;
	case SOURCE_SLOT:
		serve_slot(l);
		return true;
	case SOURCE_SERVICE:
		steering_serve(&l->steering);
		return false;
	case SOURCE_LISTENER:
		local_serve_listener(l);
		return true; /* there may be something to send or to receive */
	case SOURCE_CONNECTION:
		local_serve_connection(l, fd);
		return true;
	case SOURCE_WATCH:
		serve_watch(l, fd);
		return false;
	case SOURCE_CONTROL:
		serve_control(&l->helper, fd);
		return false;
	}
	return false;
}

/* Waits for the step's time, or without a limit. h->wake is a running mean of how late the wake-up is. */
static int wait_events(struct helper *h, struct epoll_event *events, uint32_t step)
{
	uint64_t timeout = step ? GUARD_FIRST(h) << (step - 1) : 0, due = step ? clock_now() + timeout : NEVER, now;
	struct timespec t = {.tv_sec = timeout / SEC, .tv_nsec = timeout % SEC};
	int n;

	be_lax(h, step > GUARD_SURE);
	/* glibc has a wrapper only from 2.35 on */
	n = h->no_pwait2 ? -1 : (int)syscall(SYS_epoll_pwait2, h->epoll, events, EVENTS, step ? &t : NULL, NULL, 0);
	if (n < 0 && !h->no_pwait2)
		h->no_pwait2 = errno != EINTR; /* a sandbox may refuse it with any errno */
	if (h->no_pwait2) /* before Linux 5.11, and under valgrind: there the clock, not the wake-up, is late */
		return epoll_wait(h->epoll, events, EVENTS, step ? (int)((timeout + MSEC - 1) / MSEC) : -1);
	if (n == 0 && !h->lax && (now = clock_now()) > due)
		h->wake = (3 * h->wake + max_of(WAKE_LEAST, min_of(now - due, WAKE_MOST))) / 4;
	return n;
}

/* A thread with a short slice preempts one that spins (Linux 6.12 and later; elsewhere this changes nothing). */
static void shorten_slice(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {0}; /* older kernels fill in fewer fields */

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.policy != SCHED_OTHER)
		return;
	attr.size = sizeof(attr);
	attr.runtime = SLICE;
	syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void *helper_main(void *arg)
{
	struct loop *l = arg;
	struct helper *h = &l->helper;
	struct epoll_event events[EVENTS];
	uint32_t step = 0;

	pthread_setname_np(pthread_self(), "uroce");
	prctl(PR_SET_TIMERSLACK, PRECISE);
	shorten_slice();
	/* acquire pairs with helper_fini() */
	while (!atomic_load_explicit(&h->stop, memory_order_acquire)) {
		int n = wait_events(h, events, step);
		bool looks = n == 0;

		for (int i = 0; i < n; i++)
			looks |= loop_helper_serve(l, events[i].data.u64 >> 32, (int)(uint32_t)events[i].data.u64);
		if (looks)
			step = helper_look(l, step);
	}
	shareable_own_thread(-1);
	return NULL;
}

void loop_say_no_thread(int error)
{
	log_error("the thread that connections need cannot be started: %s (%s)", strerror(error),
		  error == EAGAIN ? "allow this user or container more threads: ulimit -u, or its pids limit"
				  : "a sandbox has to allow clone and clone3");
}

int helper_start(struct loop *l)
{
	struct helper *h = &l->helper;
	sigset_t all, old;
	int err;

	if (h->running)
		return 0;
	if (!h->control.is_open && !control_open(&h->control))
		helper_control(h, EPOLL_CTL_ADD, SOURCE_CONTROL, h->control.listener, CALLERS_EVENTS);
	/* signals are for the application's threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&h->thread, NULL, helper_main, l);
	if (!err)
		shareable_own_thread(1); /* here, as the helper may not run before the program registers memory */
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	h->running = !err;
	if (err)
		loop_say_no_thread(err);
	return -err;
}

void helper_fini(struct loop *l)
{
	struct helper *h = &l->helper;

	if (h->running) {
		atomic_store_explicit(&h->stop, true, memory_order_release); /* pairs with helper_main() */
		kick(h);
		pthread_join(h->thread, NULL);
	}
	list_each_safe (i, &h->watches)
		free(container_of(i, struct watch, link));
	control_close(&h->control);
	helper_close(h);
}

/* ---- descriptors of other modules ---- */

static int add_watch(struct loop *l, int fd, void (*handler)(void *arg), void *arg)
{
	struct helper *h = &l->helper;
	struct watch *w = malloc(sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	*w = (struct watch){.fd = fd, .handler = handler, .arg = arg};
	lock_take(&h->watch_lock);
	list_append(&h->watches, &w->link);
	lock_drop(&h->watch_lock);
	err = helper_control(h, EPOLL_CTL_ADD, SOURCE_WATCH, fd, EPOLLIN);
	if (err)
		loop_unwatch(fd);
	return err;
}

int loop_watch(int fd, void (*handler)(void *arg), void *arg)
{
	struct loop *l = loop_hold();
	int err = -ENODEV;

	if (l)
		err = helper_start(l) ?: add_watch(l, fd, handler, arg);
	loop_release();
	return err;
}

void loop_not_yet(void)
{
	/* relaxed: the caller is the helper */
	atomic_load_explicit(&loop_current, memory_order_relaxed)->helper.not_yet = true;
}

void loop_unwatch(int fd)
{
	/* acquire pairs with the release in loop_get() */
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);
	struct helper *h;

	if (!l)
		return;
	h = &l->helper;
	epoll_ctl(h->epoll, EPOLL_CTL_DEL, fd, NULL);
	lock_take(&h->watch_lock);
	list_each_safe (i, &h->watches) {
		struct watch *w = container_of(i, struct watch, link);

		if (w->fd == fd) {
			list_remove(&w->link);
			free(w);
		}
	}
	lock_drop(&h->watch_lock);
}
