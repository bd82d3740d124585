/* Waiting for a completion channel or an asynchronous event: the waiting thread receives in place of the helper, so a
 * packet wakes one thread and not two.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "loop/internal.h"

#define SPIN  (20 * USEC) /* before sleeping: about what a wake-up costs */
#define PORTS 15	  /* more are left to the helper */

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static bool is_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK;
}

static bool fds_ready(const struct loop_wait *w)
{
	return w->count && poll(w->fds, w->count, 0) > 0;
}

/* 1: there it is; 0: not yet. */
static int look(const struct loop_wait *w)
{
	return w->done(w->arg) || fds_ready(w);
}

/* Progress for a while. True: there it is. */
static bool spin(struct loop *l, const struct loop_wait *w)
{
	uint64_t now = clock_now(), quiet = now;

	for (;;) {
		atomic_store_explicit(&l->last_poll, AT_WORK, memory_order_relaxed); /* hints for the helper */
		if (progress(l, now))
			quiet = now;
		atomic_store_explicit(&l->last_poll, now, memory_order_relaxed);
		if (look(w))
			return true;
		if (now - quiet >= SPIN || l->processors == 1 || now >= w->until)
			return false;
		now = clock_now();
	}
}

/* How long poll() may sleep, in ms. */
static int sleep_ms(uint64_t until)
{
	uint64_t now = clock_now();

	if (until == NEVER)
		return -1;
	return until <= now ? 0 : (int)min_of((until - now + MSEC - 1) / MSEC, (uint64_t)INT_MAX);
}

/* Sleeps on the n descriptors of p, the first of which is w->wake. True in *woken: that was written. */
static int sleep_on(const struct loop_wait *w, struct pollfd *p, uint32_t n, int ms, bool *woken)
{
	uint64_t count;

	if (poll(p, n, ms) < 0)
		return -errno;
	*woken = p[0].revents;
	if (*woken && read(w->wake, &count, sizeof(count)) < 0)
		return -errno;
	return 0;
}

/* `p` has room for the caller's descriptors, and ours. */
static uint32_t gather(const struct loop_wait *w, struct pollfd *p)
{
	p[0] = (struct pollfd){.fd = w->wake, .events = POLLIN};
	for (uint32_t i = 0; i < w->count; i++)
		p[1 + i] = w->fds[i];
	return 1 + w->count;
}

static int sleep_with_ports(struct loop *l, const struct loop_wait *w, struct pollfd *p, bool *woken)
{
	uint32_t n = gather(w, p), round;
	bool awake;
	int err;

	p[n++] = (struct pollfd){.fd = l->helper.renew, .events = POLLIN};
	lock_take(&l->receive);
	p[n++] = (struct pollfd){.fd = l->local.bells, .events = POLLIN}; /* -1 is nothing */
	for (uint32_t i = 0; i < l->ports && i < PORTS; i++)
		p[n++] = (struct pollfd){.fd = l->port[i]->link->fd, .events = POLLIN};
	round = sleep_begin(l);
	awake = local_sleep(l);
	lock_drop(&l->receive);
	err = sleep_on(w, p, n, awake ? 0 : sleep_ms(w->until), woken);
	sleep_end(l, round);
	return err;
}

static int drive(struct loop *l, const struct loop_wait *w, struct pollfd *p)
{
	bool disarmed = true;

	for (;;) {
		int err;

		if (spin(l, w))
			return 1;
		if (disarmed) {
			w->arm(w->arg);
			if (look(w))
				return 1;
		}
		if (clock_now() >= w->until)
			return 0;
		run_ready(l, clock_now());
		err = sleep_with_ports(l, w, p, &disarmed);
		if (err)
			return err;
	}
}

static int wait_plain(const struct loop_wait *w, struct pollfd *p)
{
	bool woken;

	for (;;) {
		int err;

		w->arm(w->arg);
		if (look(w))
			return 1;
		if (clock_now() >= w->until)
			return 0;
		err = sleep_on(w, p, gather(w, p), sleep_ms(w->until), &woken);
		if (err)
			return err;
	}
}

int loop_wait_for(const struct loop_wait *w)
{
	/* acquire pairs with the release in loop_get() */
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);
	struct pollfd few[32], *p = few;
	int result;

	if (w->count + 3 + PORTS > ARRAY_SIZE(few))
		p = malloc((w->count + 3 + PORTS) * sizeof(*p));
	if (!p)
		return -ENOMEM;
	if (l) {
		helper_drive(l);
		result = drive(l, w, p);
		helper_leave(l, clock_now());
	} else {
		result = wait_plain(w, p);
	}
	if (p != few)
		free(p);
	return result;
}

/* ---- waiting for a descriptor alone ---- */

static bool tells_nothing(void *arg)
{
	return false;
}

static void needs_nothing(void *arg)
{
}

int loop_wait(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	const struct loop_wait w = {
		.done = tells_nothing, .arm = needs_nothing, .wake = -1, .fds = &p, .count = 1, .until = NEVER};
	int result;

	if (is_readable(fd))
		return 0;
	if (is_nonblocking(fd)) {
		loop_progress();
		return is_readable(fd) ? 0 : -EAGAIN;
	}
	result = loop_wait_for(&w);
	return result < 0 ? result : 0;
}
