/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/descriptor.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/bridge.h"
#include "preload/early.h"
#include "preload/inherit.h"
#include "preload/kind.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif
/* Functions of glibc 2.34 and later. */
int close_range(unsigned first, unsigned last, int flags);
void closefrom(int first);

bool is_rdma(int fd)
{
	enum kind kind = kind_of(fd);

	if (kind == RDMA)
		return true;
	if (kind == INHERITED)
		inherit_claim(fd);
	return kind == CONNECTING && kind_settle(fd);
}

/* Makes the descriptor PLAIN, so that no bridge takes it. Returns the kind before. */
static enum kind take_back(int fd)
{
	enum kind kind;

	lock_take(&move_lock);
	kind = kind_of(fd);
	set_kind(fd, PLAIN);
	lock_drop(&move_lock);
	return kind;
}

void let_go(int fd)
{
	enum kind kind = kind_of(fd);

	if (kind == RDMA)
		kind = take_back(fd);
	if (kind == PLAIN)
		return;
	if (kind == INHERITED)
		inherit_decline(fd);
	if (kind <= PENDING)
		early_forget(fd);
	set_kind(fd, PLAIN);
	if (kind >= LISTENING)
		INSIDE((OPS.detach(fd), 0));
	if (kind == EPOLL || kind == NESTED)
		INSIDE((OPS.epoll_close(fd), 0));
}

void bridge_if_rdma(int fd)
{
	if (is_rdma(fd) && kind_of(fd) == RDMA)
		bridge(fd);
}

/* ---- closing ---- */

PUBLIC int close(int fd)
{
	let_go(fd);
	return NEXT(close)(fd);
}

static void let_go_from(unsigned first, unsigned last)
{
	for (unsigned fd = first; fd <= last && fd < ARRAY_SIZE(kinds); fd++)
		let_go((int)fd);
}

PUBLIC int close_range(unsigned first, unsigned last, int flags)
{
	if (!NEXT(close_range)) {
		errno = ENOSYS;
		return -1;
	}
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		let_go_from(first, last);
	return NEXT(close_range)(first, last, flags);
}

PUBLIC void closefrom(int first)
{
	let_go_from((unsigned)max_of(first, 0), UINT_MAX);
	if (NEXT(closefrom))
		NEXT(closefrom)(first);
}

/* ---- copies ---- */

/* Gives the copy `to` the kind of `from`. Returns `to`. */
static int same(int from, int to)
{
	enum kind kind = kind_of(from);

	if (to < 0 || from == to)
		return to;
	if (kind == RDMA && to <= STDERR_FILENO) { /* FILEs, or a program that is executed, use it */
		bridge(from);
		kind = kind_of(from);
		if (kind == PLAIN)
			NEXT(dup2)(from, to);
	}
	if (kind == FRESH)
		set_kind(from, kind = ALTERED); /* options set on either apply to both */
	if (kind == EPOLL || kind == NESTED)
		kind = PLAIN;
	if (kind >= LISTENING)
		INSIDE((OPS.detach(to), OPS.share(from, to)));
	set_kind(to, kind);
	return to;
}

PUBLIC int dup(int fd)
{
	is_rdma(fd);
	return same(fd, NEXT(dup)(fd));
}

PUBLIC int dup2(int fd, int to)
{
	is_rdma(fd);
	if (fd != to)
		let_go(to);
	return same(fd, NEXT(dup2)(fd, to));
}

PUBLIC int dup3(int fd, int to, int flags)
{
	is_rdma(fd);
	if (fd != to)
		let_go(to);
	return same(fd, NEXT(dup3)(fd, to, flags));
}

/* A bridge, as the child makes no interposed call before it executes the program. */
PUBLIC int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to)
{
	bridge_if_rdma(fd);
	return NEXT(posix_spawn_file_actions_adddup2)(actions, fd, to);
}

/* ---- system calls, fcntl ---- */

/* Interposed for libuv, which closes by it, as close() is a cancellation point. */
PUBLIC long syscall(long number, ...)
{
	va_list args;
	long a[6];

	va_start(args, number);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_close)
		return close((int)a[0]);
	if (number == SYS_dup3)
		return dup3((int)a[0], (int)a[1], (int)a[2]);
#ifdef SYS_close_range
	if (number == SYS_close_range)
		return close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]);
#endif
	return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void follow(int fd, int cmd, long arg, int result)
{
	int error = errno;

	if (cmd == F_SETFL && kind_of(fd) >= LISTENING)
		INSIDE(rfcntl(fd, F_SETFL, kind_of(fd) == LISTENING ? O_NONBLOCK : (int)arg));
	if ((cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) && result >= 0)
		same(fd, result);
	errno = error;
}

#define FCNTL(name)                                      \
	PUBLIC int name(int fd, int cmd, ...)            \
	{                                                \
		va_list ap;                              \
		long arg;                                \
		int result;                              \
                                                         \
		va_start(ap, cmd);                       \
		arg = va_arg(ap, long);                  \
		va_end(ap);                              \
		result = NEXT(name)(fd, cmd, arg);       \
		if (result >= 0 && kind_of(fd) != PLAIN) \
			follow(fd, cmd, arg, result);    \
		return result;                           \
	}
FCNTL(fcntl)
FCNTL(fcntl64)
