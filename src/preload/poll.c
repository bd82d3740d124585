/* poll, select, epoll. SPDX-License-Identifier: BSD-2-Clause */
#include "preload/preload.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#pragma weak uroce_rsocket_attach
#define OPS uroce_rsocket_attach

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room);

/* Whether the descriptor has to do with RDMA by now. */
static bool concerns(int fd)
{
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

PUBLIC int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	return inside || !any_concerns(fds, count) ? NEXT(poll)(fds, count, timeout) : INSIDE(rpoll(fds, count, timeout));
}

PUBLIC int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	if (room / sizeof(*fds) < count)
		abort();
	return poll(fds, count, timeout);
}

/* The mask is not changed at the very moment that the wait begins: a signal may come just before. */
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
	return result;
}

PUBLIC int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room)
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

PUBLIC int select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	return inside || !any_of(n, in, out, except) ? NEXT(select)(n, in, out, except, timeout)
						     : INSIDE(rselect(n, in, out, except, timeout));
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
	return result;
}

/* ---- epoll ---- */

PUBLIC int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	int err;

	if (inside || kind_of(fd) == PLAIN || !concerns(fd))
		return NEXT(epoll_ctl)(epfd, op, fd, event);
	err = INSIDE(OPS.epoll_ctl(epfd, op, fd, event));
	if (err == -ENOENT) /* it was added when it was an ordinary socket */
		return op == EPOLL_CTL_DEL ? NEXT(epoll_ctl)(epfd, op, fd, event) : (errno = ENOENT, -1);
	if (err)
		errno = -err;
	return err ? -1 : 0;
}

static int epoll_all(int epfd, struct epoll_event *events, int max, int timeout)
{
	int n = INSIDE(OPS.epoll_wait(epfd, events, max, timeout));

	if (n < 0)
		errno = -n;
	return n < 0 ? -1 : n;
}

PUBLIC int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	return inside || !&OPS || !OPS.epoll_is(epfd) ? NEXT(epoll_wait)(epfd, events, max, timeout)
						      : epoll_all(epfd, events, max, timeout);
}

PUBLIC int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
	sigset_t old;
	int n;

	if (inside || !&OPS || !OPS.epoll_is(epfd))
		return NEXT(epoll_pwait)(epfd, events, max, timeout, mask);
	with_mask(mask, &old);
	n = epoll_all(epfd, events, max, timeout);
	with_mask(mask ? &old : NULL, NULL);
	return n;
}
