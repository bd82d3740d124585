/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits for a completion channel or an asynchronous event: the waiting thread receives in place of the helper, so a
 * packet wakes one thread and not two. */
#include "progress/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/uncancelled.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "port/local_link.h"
#include "port/run.h"
#include "progress/poll.h"
#include "progress/restart.h"
#include "progress/tuned.h"

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

bool loop_is_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK;
}

static bool fds_ready(const struct loop_wait *w)
{
	return w->count && poll(w->fds, w->count, 0) > 0;
}

/* Checks for the event. 1: it has come; 0: not yet. */
static int wait_look(const struct loop_wait *w)
{
	return w->done(w->arg) || fds_ready(w);
}

/* ---- signals ---- */

void loop_hold_signals(sigset_t *before)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
	sigset_t held;

	sigfillset(&held);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		sigdelset(&held, own[i]);
	pthread_sigmask(SIG_BLOCK, &held, before);
}

/* Lets pending signals be delivered. 0, or -EINTR: a handler has run, and the wait must end. */
static int heed_signals(const struct loop_wait *w, const sigset_t *before)
{
	if (w->restarts)
		return restart_heed(before);
	return uncancelled_ppoll(NULL, 0, &(struct timespec){0}, before) < 0 ? -errno : 0;
}

/* ---- waiting ---- */

/* State to be undone when a wait ends, also by pthread_cancel(3) during the sleep. */
struct stay {
	struct loop *l; /* the loop for which the thread receives; NULL: none */
	bool asleep;
	uint32_t round; /* round of sleep_begin(), while asleep */
	sigset_t own;	/* the thread's own mask */
	bool held;	/* the caller restores the mask */
	struct pollfd *p, few[32];
};

static void stay_wake(struct stay *s)
{
	if (s->asleep)
		sleep_end(s->l, s->round);
	s->asleep = false;
}

static void stay_end(void *arg)
{
	struct stay *s = arg;

	stay_wake(s);
	if (s->l) {
		helper_leave(s->l, clock_now());
		loop_awake();
	}
	if (s->held)
		pthread_sigmask(SIG_SETMASK, &s->own, NULL);
	if (s->p != s->few)
		free(s->p);
}

/* Consecutive spins of this thread that found nothing: they decide how long it spins. */
static _Thread_local uint32_t vain;

static uint64_t spin_time(const struct loop *l)
{
	return l->processors > 1 && (vain < VAIN_SURE || vain % VAIN_AGAIN == 0) ? SPIN : 0;
}

/* Makes progress for a while. 1: the event has come; 0: not yet; -EINTR. */
static int spin(struct loop *l, const struct loop_wait *w, const sigset_t *signals)
{
	const uint64_t start = clock_now(), time = spin_time(l);
	uint64_t now = start, quiet = now, heeded = now;
	int err;

	for (;;) {
		atomic_store_explicit(&l->last_poll, AT_WORK, memory_order_relaxed); /* a hint for the helper */
		if (progress(l, now))
			quiet = now;
		atomic_store_explicit(&l->last_poll, now, memory_order_relaxed);
		if (wait_look(w)) {
			if (now > start) /* else the event was there already */
				vain = 0;
			return 1;
		}
		if (now - quiet >= time || now >= w->until) {
			vain++;
			return 0;
		}
		now = clock_now();
		if (now - heeded < SPIN)
			continue;
		heeded = now;
		err = heed_signals(w, signals);
		if (err)
			return err;
	}
}

/* The time to sleep, until `until`; NULL: without limit. */
static const struct timespec *sleep_time(uint64_t until, struct timespec *t)
{
	uint64_t now = clock_now(), ns = until > now ? until - now : 0;

	*t = (struct timespec){(time_t)(ns / SEC), (long)(ns % SEC)};
	return until == NEVER ? NULL : t;
}

/* ppoll(2), except that a handler with SA_RESTART does not end it for the caller: then no descriptor is ready. */
static int poll_restarting(struct pollfd *p, uint32_t n, uint64_t until, const sigset_t *signals)
{
	struct restart r;
	struct timespec time;

	restart_begin(&r, signals, clock_now());
	p[n] = (struct pollfd){.fd = r.fd, .events = POLLIN};
	if (ppoll(p, n + 1, sleep_time(min_of(until, r.until), &time), &r.mask) < 0) {
		p[0].revents = 0;
		return errno == EINTR ? restart_verdict(signals) : -errno;
	}
	return p[n].revents ? restart_woken(&r, signals) : 0;
}

/* Sleeps on p[0..n-1], the first of which is w->wake; p has room for one more. *woken: w->wake was written. The only
 * cancellation point of a wait. */
static int sleep_on(const struct loop_wait *w, struct pollfd *p, uint32_t n, uint64_t until, const sigset_t *signals,
		    bool *woken)
{
	struct timespec time;
	uint64_t count;
	int err;

	if (w->restarts)
		err = poll_restarting(p, n, until, signals);
	else
		err = ppoll(p, n, sleep_time(until, &time), signals) < 0 ? -errno : 0;
	if (err)
		return err;
	*woken = p[0].revents;
	if (*woken && read(w->wake, &count, sizeof(count)) < 0 &&
	    errno != EAGAIN) /* other threads may sleep on `wake` too */
		return -errno;
	return 0;
}

/* Collects the caller's descriptors and the loop's in `p`. Returns their number. */
static uint32_t wait_gather(const struct loop_wait *w, struct pollfd *p)
{
	p[0] = (struct pollfd){.fd = w->wake, .events = POLLIN};
	for (uint32_t i = 0; i < w->count; i++)
		p[1 + i] = w->fds[i];
	return 1 + w->count;
}

static int sleep_with_ports(struct stay *stay, const struct loop_wait *w, struct pollfd *p, const sigset_t *signals,
			    bool *woken)
{
	struct loop *l = stay->l;
	uint32_t n = wait_gather(w, p);
	bool awake;
	int err;

	p[n++] = (struct pollfd){.fd = l->helper.renew, .events = POLLIN};
	lock_take(&l->receive);
	if (l->ended) {
		lock_drop(&l->receive);
		return -ESHUTDOWN;
	}
	p[n++] = (struct pollfd){.fd = l->local.doorbell, .events = POLLIN}; /* poll(2) ignores -1 */
	for (uint32_t i = 0; i < l->ports && i < SLEEP_PORTS; i++)
		p[n++] = (struct pollfd){.fd = l->port[i]->link->fd, .events = POLLIN};
	stay->round = sleep_begin(l);
	stay->asleep = true;
	awake = local_sleep(l);
	lock_drop(&l->receive);
	err = sleep_on(w, p, n, awake ? 0 : w->until, signals, woken);
	stay_wake(stay);
	return err;
}

static int drive(struct stay *stay, const struct loop_wait *w, struct pollfd *p, const sigset_t *signals)
{
	struct loop *l = stay->l;
	bool disarmed = true;

	for (;;) {
		int result = spin(l, w, signals);

		if (result)
			return result;
		if (disarmed) {
			w->arm(w->arg);
			if (wait_look(w))
				return 1;
		}
		if (clock_now() >= w->until)
			return 0;
		run_ready(l, clock_now());
		result = sleep_with_ports(stay, w, p, signals, &disarmed);
		if (result)
			return result;
	}
}

static int wait_plain(const struct loop_wait *w, struct pollfd *p, const sigset_t *signals)
{
	bool woken;

	for (;;) {
		int err;

		w->arm(w->arg);
		if (wait_look(w))
			return 1;
		if (clock_now() >= w->until)
			return 0;
		err = sleep_on(w, p, wait_gather(w, p), w->until, signals, &woken);
		if (err)
			return err;
	}
}

/* Waits. `l`: the loop, which is not freed meanwhile; NULL: none. */
static int wait_by(struct loop *l, const struct loop_wait *w)
{
	struct stay stay; /* most of `few` is never used */
	const sigset_t *signals = w->signals ?: &stay.own;
	int result;

	pthread_testcancel();
	stay.l = l;
	stay.asleep = false;
	stay.held = !w->signals;
	stay.p = stay.few;
	if (w->count + 4 + SLEEP_PORTS > ARRAY_SIZE(stay.few))
		stay.p = malloc((w->count + 4 + SLEEP_PORTS) * sizeof(*stay.p));
	if (!stay.p)
		return -ENOMEM;
	if (stay.held)
		loop_hold_signals(&stay.own);
	if (l)
		helper_drive(l);
	pthread_cleanup_push(stay_end, &stay);
	result = l ? drive(&stay, w, stay.p, signals) : wait_plain(w, stay.p, signals);
	pthread_cleanup_pop(1);
	return result;
}

int loop_wait_for(const struct loop_wait *w)
{
	/* acquire pairs with the release in loop_get() */
	return wait_by(atomic_load_explicit(&loop_current, memory_order_acquire), w);
}

/* ---- waiting for a descriptor only ---- */

static bool tells_nothing(void *arg)
{
	return false;
}

static void needs_nothing(void *arg)
{
}

static int wait_for_fd(int fd, int (*wait)(const struct loop_wait *w), bool (*look)(void))
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	const struct loop_wait w = {.done = tells_nothing,
				    .arm = needs_nothing,
				    .wake = -1,
				    .fds = &p,
				    .count = 1,
				    .until = NEVER,
				    .restarts = true};
	int result;

	if (is_readable(fd))
		return 0;
	if (loop_is_nonblocking(fd)) {
		look();
		return is_readable(fd) ? 0 : -EAGAIN;
	}
	result = wait(&w);
	return result < 0 ? result : 0;
}

int loop_wait(int fd)
{
	return wait_for_fd(fd, loop_wait_for, loop_progress);
}

static void unpin(void *l)
{
	loop_unpin(l);
}

static int wait_pinned(const struct loop_wait *w)
{
	struct loop *l = loop_pin();
	int result;

	pthread_cleanup_push(unpin, l);
	result = wait_by(l, w);
	pthread_cleanup_pop(1);
	return result;
}

/* Waits without an open context. If the last one is closed meanwhile, the thread goes on with the next loop, or with
 * none. */
static int wait_alone(const struct loop_wait *w)
{
	int result;

	do
		result = wait_pinned(w);
	while (result == -ESHUTDOWN);
	return result;
}

static bool look_alone(void)
{
	struct loop *l = loop_pin();
	bool any = l && progress(l, clock_now());

	loop_unpin(l);
	return any;
}

int loop_wait_alone(int fd)
{
	return wait_for_fd(fd, wait_alone, look_alone);
}
