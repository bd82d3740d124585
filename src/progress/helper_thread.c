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

#include "progress/helper_thread.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/timer.h"
#include "base/yield.h"
#include "host/registry.h"
#include "loop/control.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "loop/poller.h"
#include "memory/shareable.h"
#include "port/local.h"
#include "port/local_link.h"
#include "port/receive.h"
#include "port/run.h"
#include "progress/tuned.h"
#include "progress/waitfd.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441 /* Linux 5.11; the same on all architectures */
#endif

#define EVENTS 16

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

/* Arms the links: they wake the helper, also for what has come before. */
static void arm(struct loop *l)
{
	struct helper *h = &l->helper;

	helper_enter(h, HELPER_ARMED);
	lock_take(&l->receive);
	for (uint32_t i = 0; i < l->ports; i++)
		helper_arm_port(h, l->port[i]);
	arm_doorbell(l);
	lock_drop(&l->receive);
	if (has_ready(l) || atomic_load_explicit(&l->settle_missed, memory_order_relaxed))
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
	if (!helper_drivers(&l->helper)) /* the thread has left meanwhile */
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

/* True if another thread wanted this processor and will again. Spinning would take time from that thread, and a yield
 * would cost the helper a whole slice of its time. */
static bool is_crowded(struct helper *h, uint64_t now)
{
	uint64_t back;

	if (now < h->crowded_until)
		return true;
	processor_yield();
	back = clock_now();
	if (back - now > YIELD_LONG)
		h->crowded_until = back + CROWDED * (back - now);
	return false;
}

/* True during a stream: trains come in quick succession, and no thread here has to act for the next one to come.
 * Polling without a pause costs other threads of this processor little, as the scheduler gives them their share; a
 * yield would give them a whole slice. Sleeping costs the sender, which must wake the helper each time, half a train.
 * If the next train waits for threads here, streams are short, and doubt grows. */
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
	h->doubt = h->trains == STREAM_LONG ? STREAM_DOUBT : min_of(h->doubt * 2, STREAM_MOST);
	h->trains = -h->doubt;
}

/* True if it is time to sleep, as nothing has come for `quiet` ns. */
static bool is_over(struct helper *h, uint64_t quiet)
{
	if (likely(!is_stream(h)))
		return quiet >= SPIN;
	if (quiet < STREAM)
		return false;
	helper_end_stream(h);
	return true;
}

/* Works until nothing has come for a while, or an application thread takes over. True: the work is still the
 * helper's. */
static bool work(struct loop *l, uint64_t start)
{
	uint64_t quiet = start, now = start;

	while (!helper_drivers(&l->helper) && last_poll(l) <= start) {
		uint32_t n = 0;

		if (lock_try(&l->receive)) {
			n = receive_all(l, &now, NULL);
			local_unstick(l);
			lock_drop(&l->receive);
			note_packets(&l->helper, n, now);
		}
		if (run_timers(l, now) || n) {
			quiet = now;
		} else if (!is_stream(&l->helper) && is_crowded(&l->helper, clock_now())) {
			run_ready(l, clock_now()); /* the next chance may come late */
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

/* True if a thread that waits for a descriptor by itself has received since the last look. */
static bool is_spared(struct loop *l, uint64_t now)
{
	struct helper *h = &l->helper;
	bool spared = waitfd_receives(l, h->looked);

	h->looked = now;
	if (spared)
		run_timers(l, now);
	return spared;
}

/* Chooses the next state; `step` counts the times in GUARD in succession. Returns the next step; 0: wait for an
 * event. */
static uint32_t look(struct loop *l, uint32_t step)
{
	struct helper *h = &l->helper;
	uint64_t now = clock_now();
	bool polls = application_polls(l, now);
	uint32_t excused = polls || helper_drivers(h) ? 0 : poller_waits(&l->poller, now, last_poll(l));

	if (polls)
		poller_polls(&l->poller, step > GUARD_SURE);
	else if (!excused && !helper_drivers(h) && !is_spared(l, now) && work(l, now)) {
		arm(l);
		return 0;
	}
	if (helper_drivers(h)) {
		let_drive(l, now);
		return 0;
	}
	local_tidy(l);
	helper_enter(h, HELPER_GUARD);
	if (step == GUARD_SURE)
		unwatch_ports(l);
	if (step && excused == 1) /* it has polled, and waits for its next turn */
		step = GUARD_LAST;
	else if (excused) /* look again soon: the thread may compute by then */
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
	helper_empty(l->helper.kick);
	if (atomic_load_explicit(&l->helper.flush, memory_order_acquire)) /* pairs with helper_flush() */
		run_ready(l, clock_now());
	local_serve_wanted(l);
}

/* Sets the timer slack. With a long one, a step ends at the next tick: a timer interrupt of its own costs a thread that
 * polls on this processor 60 us in a virtual machine, a sixteenth of its time. */
static void be_lax(struct helper *h, bool lax)
{
	if (h->lax != lax)
		prctl(PR_SET_TIMERSLACK, lax ? SLACK_LAX : SLACK_PRECISE);
	h->lax = lax;
}

static void serve_watch(struct loop *l, int fd)
{
	struct helper *h = &l->helper;

	lock_take(&h->watch_lock);
	list_each (i, &h->watches) {
		struct helper_watch *w = container_of(i, struct helper_watch, link);

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
	while ((fd = control_accept(&h->control)) != -EAGAIN && fd != -EBUSY)
		if (fd >= 0)
			helper_control(h, EPOLL_CTL_ADD, SOURCE_CONTROL, fd, EPOLLIN);
}

/* Serves an event of the epoll set. True: check what the application threads do. */
static bool serve(struct loop *l, enum source source, int fd)
{
	switch (source) {
	case SOURCE_PORT:
	case SOURCE_DOORBELL:
		return true;
	case SOURCE_TIMER:
		helper_timer_fired(&l->helper);
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

/* Waits for the step's time, or without a limit. h->wake is a running mean of how late wake-ups are. */
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

/* Gives the helper a short slice, so that it preempts a thread that spins (Linux 6.12 and later; elsewhere this changes
 * nothing). */
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

void *helper_main(void *arg)
{
	struct loop *l = arg;
	struct helper *h = &l->helper;
	struct epoll_event events[EVENTS];
	uint32_t step = 0;

	h->wake = WAKE_LEAST;
	h->doubt = STREAM_DOUBT;
	pthread_setname_np(pthread_self(), "uroce");
	prctl(PR_SET_TIMERSLACK, SLACK_PRECISE);
	shorten_slice();
	if (l->hca.share)
		share_begin_life(l->hca.share);
	/* acquire pairs with helper_fini() */
	while (!atomic_load_explicit(&h->stop, memory_order_acquire)) {
		int n = wait_events(h, events, step);
		bool looks = n == 0;

		for (int i = 0; i < n; i++)
			looks |= serve(l, events[i].data.u64 >> 32, (int)(uint32_t)events[i].data.u64);
		if (looks)
			step = look(l, step);
	}
	if (l->hca.share)
		share_end_life(l->hca.share);
	shareable_own_thread(-1);
	return NULL;
}
