/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/refused.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"

#define FD	(-1) /* argument: a descriptor that is no socket, file, timer or epoll set */
#define NOTHING (-2) /* argument: memory of zeros */

/* The calls. One that is allowed fails, as the descriptor or the flags do not fit, or does nothing. */
static const struct required {
	const char *name;
	long number, argument[5];
} required[] = {
	{"accept4", SYS_accept4, {FD, 0, 0, 0}},
	{"bind", SYS_bind, {FD, NOTHING, 0}},
	{"clock_nanosleep", SYS_clock_nanosleep, {CLOCK_MONOTONIC, 0, NOTHING, 0}},
	{"connect", SYS_connect, {FD, NOTHING, 0}},
	{"epoll_create1", SYS_epoll_create1, {INT32_MAX}},
	{"epoll_ctl", SYS_epoll_ctl, {FD, EPOLL_CTL_DEL, FD, NOTHING}},
	{"epoll_pwait", SYS_epoll_pwait, {FD, NOTHING, 1, 0, 0}},
	{"fcntl", SYS_fcntl, {FD, F_GETFD, 0}},
	{"ftruncate", SYS_ftruncate, {FD, 0}},
	{"getrandom", SYS_getrandom, {NOTHING, 0, 0}},
	{"getsockopt", SYS_getsockopt, {FD, 0, 0, NOTHING, NOTHING}},
	{"listen", SYS_listen, {FD, 0}},
	{"memfd_create", SYS_memfd_create, {NOTHING, INT32_MAX}},
	{"ppoll", SYS_ppoll, {NOTHING, 0, NOTHING, 0, 0}},
	{"pread64", SYS_pread64, {FD, NOTHING, 0, 0}},
	{"pwrite64", SYS_pwrite64, {FD, NOTHING, 0, 0}},
	{"recvfrom", SYS_recvfrom, {FD, NOTHING, 0, 0, 0}},
	{"recvmsg", SYS_recvmsg, {FD, NOTHING, 0}},
	{"sendmsg", SYS_sendmsg, {FD, NOTHING, 0}},
	{"sendto", SYS_sendto, {FD, NOTHING, 0, 0, 0}},
	{"setsockopt", SYS_setsockopt, {FD, 0, 0, NOTHING, 0}},
	/* no socket has that type; a sandbox may refuse some families */
	{"socket(AF_INET)", SYS_socket, {AF_INET, 15, 0}},
	{"socket(AF_NETLINK)", SYS_socket, {AF_NETLINK, 15, 0}},
	{"socket(AF_UNIX)", SYS_socket, {AF_UNIX, 15, 0}},
	{"timerfd_create", SYS_timerfd_create, {INT32_MAX, 0}},
	{"timerfd_settime", SYS_timerfd_settime, {FD, 0, NOTHING, 0}},
};

bool refused_is(int error)
{
	return error == EPERM || error == EACCES || error == ENOSYS || error == EAFNOSUPPORT;
}

static int try_call(const struct required *r, int fd)
{
	static _Thread_local uint64_t zeros[16]; /* a call may write its zeros back */
	long a[ARRAY_SIZE(r->argument)];

	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		a[i] = r->argument[i] == FD ? fd : r->argument[i] == NOTHING ? (long)zeros : r->argument[i];
	return syscall(r->number, a[0], a[1], a[2], a[3], a[4], 0l) < 0 && refused_is(errno) ? errno : 0;
}

int refused_calls(char *names, size_t room)
{
	int fd = eventfd(0, EFD_CLOEXEC), err = fd < 0 && refused_is(errno) ? errno : 0;
	size_t n = err ? (size_t)snprintf(names, room, "eventfd2") : 0;

	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(required); i++) {
		int refused = try_call(&required[i], fd);

		if (refused && n < room)
			n += (size_t)snprintf(names + n, room - n, "%s%s", n ? ", " : "", required[i].name);
		err = err ?: refused;
	}
	if (fd >= 0)
		close(fd);
	return -err;
}

int refused_say(const char *what)
{
	char names[400];
	int saved = errno, err = refused_calls(names, sizeof(names));

	if (err)
		log_error("%s: a sandbox (seccomp) refuses %s, which uroce requires: %s", what, names, strerror(-err));
	errno = saved;
	return err;
}
