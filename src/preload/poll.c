/* SPDX-License-Identifier: BSD-2-Clause */
/* poll, select, epoll. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "preload/bridge.h"
#include "preload/descriptor.h"
#include "preload/early.h"
#include "preload/kind.h"
#include "preload/socket.h"

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout, const sigset_t *mask);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room);

/* True if an rsocket is polled beside the descriptor. */
static bool concerns(int fd)
{
	enum kind kind = kind_of(fd);

	if (kind == EPOLL || kind == NESTED)
		epoll_nest(fd);
	wake_listener(fd);
	return kind_of(fd) == LISTENING || is_rdma(fd);
}

static bool any_concerns(const struct pollfd *fds, nfds_t count)
{
	bool any = false;

	for (nfds_t i = 0; i < count; i++)
		any |= kind_of(fds[i].fd) != PLAIN && concerns(fds[i].fd);
	return any;
}

/* True if a failed wait must begin again, with its whole time. */
static bool poll_is_stale(void)
{
	return errno == ESTALE && bridge_moved(-1);
}

PUBLIC int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	int result;

	do
		result = inside || !any_concerns(fds, count) ? NEXT(poll)(fds, count, timeout)
							     : INSIDE(rpoll(fds, count, timeout));
	while (result < 0 && poll_is_stale());
	return result;
}

PUBLIC int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	if (room / sizeof(*fds) < count)
		abort();
	return poll(fds, count, timeout);
}

/* Sets the mask of a wait. Not atomic with the wait: a signal may come just before it. */
static int with_mask(const sigset_t *mask, sigset_t *old)
{
	return mask ? pthread_sigmask(SIG_SETMASK, mask, old) : 0;
}

static int to_ms(const struct timespec *t)
{
	return !t ? -1 : (int)(t->tv_sec * 1000 + (t->tv_nsec + 999999) / 1000000);
}

PUBLIC int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	sigset_t old;
	int result;

	if (inside || !any_concerns(fds, count))
		return NEXT(ppoll)(fds, count, timeout, mask);
	with_mask(mask, &old);
	result = INSIDE(rpoll(fds, count, to_ms(timeout)));
	with_mask(mask ? &old : NULL, NULL);
	return result < 0 && poll_is_stale() ? ppoll(fds, count, timeout, mask) : result;
}

PUBLIC int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
		       size_t room)
{
	if (room / sizeof(*fds) < count)
		abort();
	return ppoll(fds, count, timeout, mask);
}

static bool any_in(int n, const fd_set *set)
{
	bool any = false;

	for (int fd = 0; set && fd < n; fd++)
		any |= kind_of(fd) != PLAIN && FD_ISSET(fd, set) && concerns(fd);
	return any;
}

static bool any_of(int n, const fd_set *in, const fd_set *out, const fd_set *except)
{
	bool any = any_in(n, in);

	any |= any_in(n, out);
	any |= any_in(n, except);
	return any;
}

/* select() with a timeval. Sets *timeout to the time that is left, as Linux does. */
static int select_until(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	uint64_t us = (uint64_t)timeout->tv_sec * 1000000 + (uint64_t)timeout->tv_usec, spent;
	uint64_t begin = clock_now();
	int result = INSIDE(rselect(n, in, out, except, timeout));

	spent = min_of((clock_now() - begin) / USEC, us);
	*timeout = (struct timeval){(time_t)((us - spent) / 1000000), (suseconds_t)((us - spent) % 1000000)};
	return result;
}

PUBLIC int select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	int result;

	if (inside || !any_of(n, in, out, except))
		return NEXT(select)(n, in, out, except, timeout);
	result = timeout ? select_until(n, in, out, except, timeout) : INSIDE(rselect(n, in, out, except, NULL));
	return result < 0 && poll_is_stale() ? select(n, in, out, except, timeout) : result;
}

PUBLIC int pselect(int n, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout, const sigset_t *mask)
{
	struct timeval t;
	sigset_t old;
	int result;

	if (inside || !any_of(n, in, out, except))
		return NEXT(pselect)(n, in, out, except, timeout, mask);
	if (timeout)
		t = (struct timeval){timeout->tv_sec, (timeout->tv_nsec + 999) / 1000};
	with_mask(mask, &old);
	result = INSIDE(rselect(n, in, out, except, timeout ? &t : NULL));
	with_mask(mask ? &old : NULL, NULL);
	return result < 0 && poll_is_stale() ? pselect(n, in, out, except, timeout, mask) : result;
}

/* ---- epoll ---- */

static int made(int epfd)
{
	set_kind(epfd, inside || !&OPS ? PLAIN : EPOLL);
	return epfd;
}

PUBLIC int epoll_create(int size)
{
	return made(NEXT(epoll_create)(size));
}

PUBLIC int epoll_create1(int flags)
{
	return made(NEXT(epoll_create1)(flags));
}

static int epoll_ctl_plain(int epfd, int op, int fd, struct epoll_event *event)
{
	int result = NEXT(epoll_ctl)(epfd, op, fd, event);

	if (!result && (kind_of(fd) == FRESH || kind_of(fd) == ALTERED))
		early_note(epfd, op, fd, event);
	return result;
}

PUBLIC int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	int err;

	if (inside || kind_of(fd) == PLAIN)
		return NEXT(epoll_ctl)(epfd, op, fd, event);
	if (!concerns(fd))
		return epoll_ctl_plain(epfd, op, fd, event);
	err = op == EPOLL_CTL_ADD ? epoll_add(epfd, fd, event) : INSIDE(OPS.epoll_ctl(epfd, op, fd, event));
	if (err == -ENOENT) /* was added as an ordinary socket */
		return op == EPOLL_CTL_DEL ? NEXT(epoll_ctl)(epfd, op, fd, event) : (errno = ENOENT, -1);
	if (err)
		errno = -err;
	return err ? -1 : 0;
}

static int epoll_all(int epfd, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
	sigset_t old;
	int n;

	with_mask(mask, &old);
	n = INSIDE(OPS.epoll_wait(epfd, events, max, timeout));
	with_mask(mask ? &old : NULL, NULL);
	if (n < 0)
		errno = -n;
	return n < 0 ? -1 : n;
}

/* The kernel's wait. `precise`: replaces the time in ms, or NULL. */
static int epoll_plain(int epfd, struct epoll_event *events, int max, int timeout, const struct timespec *precise,
		       const sigset_t *mask)
{
	return precise && NEXT(epoll_pwait2) ? NEXT(epoll_pwait2)(epfd, events, max, precise, mask)
					     : NEXT(epoll_pwait)(epfd, events, max, timeout, mask);
}

static int epoll_any(int epfd, struct epoll_event *events, int max, int timeout, const struct timespec *precise,
		     const sigset_t *mask)
{
	while (!inside && &OPS && !OPS.epoll_is(epfd)) {
		int n = epoll_plain(epfd, events, max, timeout, precise, mask), left = n;

		if (n > 0)
			left = OPS.epoll_strip(events, n);
		if (left || !n)
			return left;
		/* the instance has rsockets now; the time begins again */
	}
	return inside || !&OPS ? epoll_plain(epfd, events, max, timeout, precise, mask)
			       : epoll_all(epfd, events, max, timeout, mask);
}

PUBLIC int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	return epoll_any(epfd, events, max, timeout, NULL, NULL);
}

PUBLIC int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
	return epoll_any(epfd, events, max, timeout, NULL, mask);
}

PUBLIC int epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
			const sigset_t *mask)
{
	return epoll_any(epfd, events, max, to_ms(timeout), timeout, mask);
}
