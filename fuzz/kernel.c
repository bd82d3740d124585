/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel.h"

#include <errno.h>
#include <linux/udp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

#define LOOK 100 /* ns that pass with each look at the clock: what waits for a time to come does not wait for ever */

long __real_syscall(long number, ...);
ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __real_epoll_wait(int epoll, struct epoll_event *events, int max, int timeout);
long __wrap_syscall(long number, ...);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int max, int timeout);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);

static _Atomic bool frozen;
static pthread_t owner;
static uint64_t now;
static const struct datagram *given;
static int given_to;

void kernel_enter_namespace(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo))
		abort();
	close(fd);
}

/* ---- threads and time ---- */

static bool is_other_thread(void)
{
	return atomic_load(&frozen) && !pthread_equal(pthread_self(), owner);
}

static bool is_frozen_here(void)
{
	return atomic_load(&frozen) && pthread_equal(pthread_self(), owner);
}

/* The library's threads end as they would without us. */
static void thaw(void)
{
	atomic_store(&frozen, false);
}

void kernel_freeze(void)
{
	struct timespec t;

	__real_clock_gettime(CLOCK_MONOTONIC, &t);
	now = (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
	owner = pthread_self();
	atomic_store(&frozen, true);
	atexit(thaw);
}

static void stop(void)
{
	while (is_other_thread())
		__real_syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 10 * MSEC}, NULL, 0L, 0L, 0L, 0L);
}

uint64_t kernel_now(void)
{
	return now;
}

void kernel_pass(uint64_t ns)
{
	now += ns;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	if (!is_frozen_here())
		return __real_clock_gettime(clock, t);
	now += LOOK;
	*t = (struct timespec){.tv_sec = (time_t)(now / SEC), .tv_nsec = (long)(now % SEC)};
	return 0;
}

/* The same in each run. */
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
	static _Atomic uint64_t state;

	for (size_t i = 0; i < size; i++) {
		uint64_t x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15ull);

		((uint8_t *)bytes)[i] = (uint8_t)((x ^ x >> 31) * 0xbf58476d1ce4e5b9ull >> 56);
	}
	return (ssize_t)size;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	if (timeout && is_other_thread()) /* without a timeout, locks may be held */
		stop();
	return __real_epoll_wait(epoll, events, max, timeout);
}

/* ---- receiving ---- */

void kernel_give(int fd, const struct datagram *d)
{
	given_to = fd;
	given = d;
}

bool kernel_is_empty(void)
{
	return !given;
}

static const struct datagram *take(int fd)
{
	const struct datagram *d = is_frozen_here() && fd == given_to ? given : NULL;

	if (d)
		given = NULL;
	return d;
}

static size_t put_control(struct msghdr *m, size_t at, int level, int type, const void *value, size_t size)
{
	struct cmsghdr *c = (struct cmsghdr *)((char *)m->msg_control + at);

	if (at + CMSG_SPACE(size) > m->msg_controllen)
		return at;
	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(size), .cmsg_level = level, .cmsg_type = type};
	memcpy(CMSG_DATA(c), value, size);
	return at + CMSG_SPACE(size);
}

static ssize_t receive_message(const struct datagram *d, struct msghdr *m)
{
	struct ucred own = {getpid(), geteuid(), getegid()};
	size_t n = min_of(d->size, m->msg_iov->iov_len), control = 0;

	memcpy(m->msg_iov->iov_base, d->bytes, n);
	m->msg_flags = d->size > n ? MSG_TRUNC : 0;
	if (m->msg_name && d->from)
		memcpy(m->msg_name, d->from, min_of(m->msg_namelen, d->from_size));
	if (!d->from)
		control = put_control(m, control, SOL_SOCKET, SCM_CREDENTIALS, &own, sizeof(own));
	if (d->segment)
		control = put_control(m, control, IPPROTO_UDP, UDP_GRO, &d->segment, sizeof(int));
	if (d->traffic_class)
		control = put_control(m, control, IPPROTO_IP, IP_TOS, &(uint8_t){(uint8_t)d->traffic_class}, 1);
	m->msg_controllen = control;
	return (ssize_t)n;
}

static ssize_t receive_bytes(const struct datagram *d, void *bytes, size_t size, struct sockaddr *from)
{
	size_t n = min_of(d->size, size);

	memcpy(bytes, d->bytes, n);
	memcpy(from, d->from, d->from_size);
	return (ssize_t)n;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags)
{
	const struct datagram *d = take(fd);

	return d ? receive_message(d, m) : __real_recvmsg(fd, m, flags);
}

/* ---- losing ---- */

static uint32_t to_lose; /* of the thread that is not stopped */

void kernel_lose(uint32_t which)
{
	to_lose = which;
}

/* Bytes of each packet of a train. */
static size_t segment_of(struct msghdr *m, size_t all)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
			int segment;

			memcpy(&segment, CMSG_DATA(c), sizeof(segment));
			return (size_t)segment;
		}
	return all;
}

/* The bytes that are left. */
static size_t lose_some(uint8_t *bytes, size_t all, size_t segment)
{
	size_t left = 0;

	for (size_t at = 0; at < all; at += segment, to_lose >>= 1) {
		size_t n = min_of(segment, all - at);

		if (to_lose & 1)
			continue;
		memmove(bytes + left, bytes + at, n);
		left += n;
	}
	return left;
}

/* What is left of the next train of which anything is. */
static ssize_t receive_rest(int fd, struct msghdr *m, int flags)
{
	size_t room = m->msg_controllen;
	ssize_t got;

	do {
		m->msg_controllen = room;
		got = __real_recvmsg(fd, m, flags);
		if (got <= 0)
			return got;
		got = (ssize_t)lose_some(m->msg_iov->iov_base, (size_t)got, segment_of(m, (size_t)got));
	} while (!got);
	return got;
}

static ssize_t receive_rest_from(int fd, void *bytes, size_t size, int flags, struct sockaddr *from, socklen_t *length)
{
	_Alignas(struct cmsghdr) char control[256]; /* with the length of its packets, which the caller does without */
	struct iovec iov = {bytes, size};
	struct msghdr m = {.msg_name = from,
			   .msg_namelen = *length,
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};

	return receive_rest(fd, &m, flags);
}

/* It may have fewer arguments than are read. */
__attribute__((no_sanitize("address", "undefined"))) long __wrap_syscall(long number, ...)
{
	const struct datagram *d;
	va_list list;
	long a[6];

	va_start(list, number);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_epoll_pwait2 && is_other_thread())
		stop();
	d = number == SYS_recvmsg || number == SYS_recvfrom ? take((int)a[0]) : NULL;
	if (d && number == SYS_recvmsg)
		return receive_message(d, (struct msghdr *)a[1]);
	if (d)
		return receive_bytes(d, (void *)a[1], (size_t)a[2], (struct sockaddr *)a[4]);
	if (is_frozen_here() && to_lose && number == SYS_recvmsg)
		return receive_rest((int)a[0], (struct msghdr *)a[1], (int)a[2]);
	if (is_frozen_here() && to_lose && number == SYS_recvfrom)
		return receive_rest_from((int)a[0], (void *)a[1], (size_t)a[2], (int)a[3], (struct sockaddr *)a[4],
					 (socklen_t *)a[5]);
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
