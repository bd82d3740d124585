/* Waiting for a completion channel or an asynchronous event: the waiting thread receives in place of the helper, so a
 * packet wakes one thread and not two.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

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

static int sleep_for(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, -1) < 0 ? -errno : 0;
}

/* Progress for a while. True: fd became readable. */
static bool spin(struct loop *l, int fd)
{
	uint64_t now = clock_now(), quiet = now;

	for (;;) {
		atomic_store_explicit(&l->last_poll, AT_WORK, memory_order_relaxed); /* hints for the helper */
		if (progress(l, now))
			quiet = now;
		atomic_store_explicit(&l->last_poll, now, memory_order_relaxed);
		if (is_readable(fd))
			return true;
		if (now - quiet >= SPIN || l->processors == 1)
			return false;
		now = clock_now();
	}
}

/* Sleeps until a packet comes, fd is readable, or there are other ports. 0 or -errno. */
static int sleep_armed(struct loop *l, int fd)
{
	struct pollfd p[3 + PORTS] = {{.fd = fd, .events = POLLIN}, {.fd = l->helper.renew, .events = POLLIN}};
	uint32_t n = 2, round;
	bool awake;
	int err;

	lock_take(&l->receive);
	p[n++] = (struct pollfd){.fd = l->local.bells, .events = POLLIN}; /* -1 is nothing */
	for (uint32_t i = 0; i < l->ports && n < 3 + PORTS; i++)
		p[n++] = (struct pollfd){.fd = l->port[i]->link->fd, .events = POLLIN};
	round = sleep_begin(l);
	awake = local_sleep(l);
	lock_drop(&l->receive);
	err = poll(p, n, awake ? 0 : -1) < 0 ? -errno : 0;
	sleep_end(l, round);
	return err;
}

static int drive(struct loop *l, int fd)
{
	int err = 0;

	while (!err && !spin(l, fd)) {
		run_ready(l, clock_now());
		err = sleep_armed(l, fd);
	}
	return err;
}

int loop_wait(int fd)
{
	/* acquire pairs with the release in loop_get() */
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);
	int err;

	if (is_readable(fd))
		return 0;
	if (!l)
		return is_nonblocking(fd) ? -EAGAIN : sleep_for(fd);
	if (is_nonblocking(fd)) {
		loop_progress();
		return is_readable(fd) ? 0 : -EAGAIN;
	}
	helper_drive(l);
	err = drive(l, fd);
	helper_leave(l, clock_now());
	return err;
}
