/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets: made, bound, connected, accepted, closed. */
#include "preload/bridge.h"
#include "preload/inherit.h"
#include "preload/preload.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fork.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif
/* Of a C library from 2.34 on. */
int close_range(unsigned first, unsigned last, int flags);
void closefrom(int first);

/* Of liburoce.so.1. Without it, nothing is ours. */
#pragma weak uroce_rsocket_attach

#define OPS uroce_rsocket_attach

_Atomic uint8_t kinds[1 << 16];
_Thread_local int inside;
/* Held while a listener begins to listen, so that threads that wait for it at once all find that it does. Not held
 * around a fork: what is called meanwhile takes locks that are. */
static struct lock listen_lock;
struct lock move_lock;

/* ---- state ---- */

static void socket_before_fork(void) ACQUIRE(move_lock)
{
	lock_take(&move_lock);
	inherit_before_fork();
	bridges_before_fork();
}

static void socket_after_fork(void) RELEASE(move_lock)
{
	bridges_after_fork();
	inherit_after_fork();
	lock_drop(&move_lock);
}

/* The child has none of its parent's connections, unless it asks for them; it may listen where the parent does not. */
static void socket_in_child(void) RELEASE(move_lock)
{
	bool inherits;

	lock_drop(&move_lock);
	listen_lock = (struct lock){0};
	epoll_forget_all();
	bridges_in_child();
	inherits = inherit_in_child();
	for (size_t fd = 0; fd < ARRAY_SIZE(kinds); fd++) {
		enum kind kind = kind_of((int)fd);

		if (kind == LISTENING)
			set_kind((int)fd, PENDING);
		else if (kind == FRESH) /* the parent may set their options */
			set_kind((int)fd, ALTERED);
		else if (kind == RDMA && inherits)
			set_kind((int)fd, INHERITED);
		else if (kind == RDMA || kind == CONNECTING || (kind == INHERITED && inherits))
			set_kind((int)fd, PLAIN);
	}
}

__attribute__((constructor)) static void socket_watch_forks(void)
{
	static const struct fork_handlers handlers = {socket_before_fork, socket_after_fork, socket_in_child};

	if (&OPS)
		OPS.watch_forks(&handlers);
}

/* What a child does to its descriptors must not be done to its parent's, in memory that both have. */
PUBLIC pid_t vfork(void)
{
	return fork();
}

static bool socket_is_nonblocking(int fd)
{
	return NEXT(fcntl)(fd, F_GETFL) & O_NONBLOCK;
}

bool is_rdma(int fd)
{
	enum kind kind = kind_of(fd);

	if (kind == RDMA)
		return true;
	if (kind == INHERITED)
		inherit_claim(fd);
	if (kind != CONNECTING)
		return false;
	if (!OPS.is_plain(fd)) {
		if (OPS.is_settled(fd))
			set_kind(fd, RDMA);
		return true;
	}
	INSIDE((OPS.detach(fd), 0));
	set_kind(fd, PLAIN);
	return false;
}

/* It is not, or no more, what a bridge is to take. What it was. */
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
		epoll_forget(fd);
	set_kind(fd, PLAIN);
	if (kind >= LISTENING)
		INSIDE((OPS.detach(fd), 0));
	if (kind == EPOLL || kind == NESTED)
		INSIDE((OPS.epoll_close(fd), 0));
}

/* ---- making ---- */

static bool is_tcp(int domain, int type, int protocol)
{
	return (domain == AF_INET || domain == AF_INET6) && (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM &&
	       (protocol == 0 || protocol == IPPROTO_TCP);
}

PUBLIC int socket(int domain, int type, int protocol)
{
	int fd = NEXT(socket)(domain, type, protocol);

	let_go(fd); /* what it was has been closed behind our back */
	if (fd >= 0 && !inside && &OPS && is_tcp(domain, type, protocol))
		set_kind(fd, FRESH);
	else
		set_kind(fd, PLAIN);
	return fd;
}

/* What the kernel calls it. */
union name {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

static int socket_get_name(int fd, union name *name, socklen_t *length)
{
	*length = sizeof(*name);
	return NEXT(getsockname)(fd, &name->any, length) ? -errno : 0;
}

static bool is_new(enum kind kind)
{
	return kind == FRESH || kind == ALTERED;
}

/* What the socket has been told before there was an rsocket. */
static void copy_options(int fd)
{
	static const int option[][2] = {{SOL_SOCKET, SO_KEEPALIVE},  {SOL_SOCKET, SO_LINGER},
					{SOL_SOCKET, SO_RCVTIMEO},   {SOL_SOCKET, SO_SNDTIMEO},
					{IPPROTO_TCP, TCP_KEEPIDLE}, {IPPROTO_TCP, TCP_KEEPINTVL},
					{IPPROTO_TCP, TCP_KEEPCNT},  {IPPROTO_TCP, TCP_NODELAY}};
	char value[32];

	for (size_t i = 0; i < ARRAY_SIZE(option); i++) {
		socklen_t length = sizeof(value);

		if (!NEXT(getsockopt)(fd, option[i][0], option[i][1], value, &length))
			rsetsockopt(fd, option[i][0], option[i][1], value, length);
	}
}

static int socket_attach(int fd, int domain, bool beneath, bool altered, bool nonblocking)
{
	int err = OPS.attach(fd, domain, SOCK_STREAM, beneath);

	if (!err && altered)
		copy_options(fd);
	if (!err && nonblocking)
		rfcntl(fd, F_SETFL, O_NONBLOCK);
	return err;
}

/* Librdmacm takes it for any address. */
static bool is_other_loopback(const union name *name)
{
	in_addr_t address = ntohl(name->ipv4.sin_addr.s_addr);

	return name->any.sa_family == AF_INET && address >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET &&
	       address != INADDR_LOOPBACK;
}

static int bind_too(int fd, const union name *name, socklen_t length)
{
	int on = 1;

	if (is_other_loopback(name))
		return -EADDRNOTAVAIL;
	rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* the kernel has said whose it is */
	return rbind(fd, &name->any, length) ? -errno : 0;
}

/* The kernel does not know that it is connected. */
static int socket_refuse(void)
{
	errno = EINVAL;
	return -1;
}

PUBLIC int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	return is_rdma(fd) ? socket_refuse() : NEXT(bind)(fd, address, length);
}

/* ---- listening ---- */

PUBLIC int listen(int fd, int backlog)
{
	int result;

	if (is_rdma(fd))
		return socket_refuse();
	result = NEXT(listen)(fd, backlog);
	if (!result && is_new(kind_of(fd)))
		set_kind(fd, PENDING);
	return result;
}

static int listen_too(int fd)
{
	union name name;
	socklen_t length, size;
	int on, err = socket_get_name(fd, &name, &length);

	if (!err)
		err = socket_attach(fd, name.any.sa_family, true, true, socket_is_nonblocking(fd));
	if (err)
		return err;
	size = sizeof(on);
	if (name.any.sa_family == AF_INET6 && !NEXT(getsockopt)(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, &size))
		rsetsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	err = bind_too(fd, &name, length) ?: rlisten(fd, 0);
	if (err)
		OPS.detach(fd);
	return err;
}

/* It is known by now what the socket is. */
static void epoll_either(int fd)
{
	if (kind_of(fd) == PLAIN)
		epoll_forget(fd);
	else
		epoll_move(fd);
}

void wake_listener(int fd)
{
	int error = errno;

	if (kind_of(fd) != PENDING)
		return;
	lock_take(&listen_lock);
	/* if that fails, by TCP alone */
	if (kind_of(fd) == PENDING)
		set_kind(fd, INSIDE(listen_too(fd)) ? PLAIN : LISTENING);
	epoll_either(fd);
	lock_drop(&listen_lock);
	errno = error;
}

static int accept_plain(int listener, struct sockaddr *address, socklen_t *length, int flags)
{
	int fd = NEXT(accept4)(listener, address, length, flags);

	let_go(fd); /* see socket() */
	return fd;
}

static int accept_rdma(int listener, struct sockaddr *address, socklen_t *length, int flags)
{
	union name name;
	int fd, err;

	if (!OPS.has_connection(listener)) {
		errno = EAGAIN;
		return -1;
	}
	if (socket_get_name(listener, &name, &(socklen_t){0}))
		return -1;
	fd = NEXT(socket)(name.any.sa_family, SOCK_STREAM | (flags & SOCK_CLOEXEC), 0);
	if (fd < 0)
		return -1;
	rfcntl(listener, F_SETFL, O_NONBLOCK);
	err = OPS.accept(listener, fd);
	if (err) {
		NEXT(close)(fd);
		errno = -err;
		return -1;
	}
	rfcntl(fd, F_SETFL, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
	if (flags & SOCK_NONBLOCK)
		NEXT(fcntl)(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	if (address && length)
		rgetpeername(fd, address, length);
	return fd;
}

/* ms; -1: without end. */
static int receive_time(int fd)
{
	struct timeval t = {0};
	socklen_t length = sizeof(t);

	NEXT(getsockopt)(fd, SOL_SOCKET, SO_RCVTIMEO, &t, &length);
	return t.tv_sec || t.tv_usec ? (int)(t.tv_sec * 1000 + (t.tv_usec + 999) / 1000) : -1;
}

/* By RDMA or by TCP, whichever has come. */
static int accept_either(int listener, struct sockaddr *address, socklen_t *length, int flags)
{
	bool waits = !socket_is_nonblocking(listener);

	for (;;) {
		struct pollfd p = {.fd = listener, .events = POLLIN};
		int fd = INSIDE(accept_rdma(listener, address, length, flags)), ms, ready;

		if (fd >= 0) {
			set_kind(fd, RDMA);
			return fd;
		}
		if (errno != EAGAIN)
			return -1;
		if (!waits || NEXT(poll)(&p, 1, 0) > 0)
			return accept_plain(listener, address, length, flags);
		ms = receive_time(listener);
		ready = INSIDE(rpoll(&p, 1, ms));
		if (ready < 0 && !(errno == EINTR && ms < 0 && OPS.restarts()))
			return -1;
		if (!ready) {
			errno = EAGAIN;
			return -1;
		}
	}
}

PUBLIC int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	wake_listener(fd);
	return kind_of(fd) == LISTENING ? accept_either(fd, address, length, flags)
					: accept_plain(fd, address, length, flags);
}

PUBLIC int accept(int fd, struct sockaddr *address, socklen_t *length)
{
	return accept4(fd, address, length, 0);
}

/* ---- connecting ---- */

static bool is_bound(const union name *name)
{
	if (name->any.sa_family == AF_INET)
		return name->ipv4.sin_port || name->ipv4.sin_addr.s_addr;
	return name->ipv6.sin6_port || !IN6_IS_ADDR_UNSPECIFIED(&name->ipv6.sin6_addr);
}

static int try_rdma(int fd, const struct sockaddr *address, socklen_t length, bool altered, bool nonblocking)
{
	union name name;
	socklen_t size;
	int err =
		socket_get_name(fd, &name, &size) ?: socket_attach(fd, name.any.sa_family, false, altered, nonblocking);

	if (err)
		return err;
	if (is_bound(&name))
		err = bind_too(fd, &name, size);
	if (!err)
		err = OPS.try_connect(fd, address, length);
	if (err && err != -EINPROGRESS)
		OPS.detach(fd);
	return err;
}

PUBLIC int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	enum kind kind;
	bool nonblocking;
	int err;

	if (is_rdma(fd))
		return INSIDE(rconnect(fd, address, length));
	kind = kind_of(fd);
	if (!is_new(kind) || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
		return NEXT(connect)(fd, address, length);
	nonblocking = socket_is_nonblocking(fd);
	err = INSIDE(try_rdma(fd, address, length, kind == ALTERED, nonblocking));
	if (err == -EINPROGRESS && !nonblocking) { /* it takes too long */
		INSIDE((OPS.detach(fd), 0));
		err = -ETIMEDOUT;
	}
	set_kind(fd, !err ? RDMA : err == -EINPROGRESS ? CONNECTING : PLAIN);
	epoll_either(fd);
	if (err == -EINPROGRESS) {
		errno = EINPROGRESS;
		return -1;
	}
	return err ? NEXT(connect)(fd, address, length) : 0;
}

/* ---- the end ---- */

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

/* Libuv closes like this, so that no other thread cancels it. */
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

PUBLIC int shutdown(int fd, int how)
{
	return is_rdma(fd) ? INSIDE(rshutdown(fd, how)) : NEXT(shutdown)(fd, how);
}

/* ---- other descriptors for the same ---- */

static int socket_same(int from, int to)
{
	enum kind kind = kind_of(from);

	if (to < 0 || from == to)
		return to;
	if (kind == RDMA &&
	    to <= STDERR_FILENO) { /* the C library reads and writes there, or a program that is executed */
		bridge(from);
		kind = kind_of(from);
		if (kind == PLAIN)
			NEXT(dup2)(from, to);
	}
	if (kind == FRESH)
		set_kind(from, kind = ALTERED); /* by either */
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
	return socket_same(fd, NEXT(dup)(fd));
}

PUBLIC int dup2(int fd, int to)
{
	is_rdma(fd);
	if (fd != to)
		let_go(to);
	return socket_same(fd, NEXT(dup2)(fd, to));
}

PUBLIC int dup3(int fd, int to, int flags)
{
	is_rdma(fd);
	if (fd != to)
		let_go(to);
	return socket_same(fd, NEXT(dup3)(fd, to, flags));
}

/* For a program that is executed, in a child that we hear nothing of. */
PUBLIC int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to)
{
	bridge_if_rdma(fd);
	return NEXT(posix_spawn_file_actions_adddup2)(actions, fd, to);
}

/* ---- names and options: what both know, both are told ---- */

PUBLIC int getsockname(int fd, struct sockaddr *to, socklen_t *room)
{
	if (is_rdma(fd))
		return INSIDE(rgetsockname(fd, to, room));
	return bridge_name(fd, false, to, room) ? 0 : NEXT(getsockname)(fd, to, room);
}

PUBLIC int getpeername(int fd, struct sockaddr *to, socklen_t *room)
{
	if (is_rdma(fd))
		return INSIDE(rgetpeername(fd, to, room));
	return bridge_name(fd, true, to, room) ? 0 : NEXT(getpeername)(fd, to, room);
}

PUBLIC int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	int result, error;

	if (level == SOL_SOCKET && name == SO_ZEROCOPY && kind_of(fd) != PLAIN) { /* nobody would tell when */
		errno = EOPNOTSUPP;
		return -1;
	}
	result = NEXT(setsockopt)(fd, level, name, value, length);
	error = errno;
	if (is_rdma(fd))
		INSIDE(rsetsockopt(fd, level, name, value, length));
	else if (kind_of(fd) == FRESH)
		set_kind(fd, ALTERED);
	else if (result && error == EOPNOTSUPP && level != SOL_SOCKET && bridge_is(fd))
		result = 0; /* what it says of TCP, or of IP, is of no use there */
	errno = error;
	return result;
}

PUBLIC int getsockopt(int fd, int level, int name, void *to, socklen_t *room)
{
	if (is_rdma(fd) && ((level == SOL_SOCKET && name == SO_ERROR) || level == IPPROTO_TCP))
		return INSIDE(rgetsockopt(fd, level, name, to, room));
	return NEXT(getsockopt)(fd, level, name, to, room);
}

/* ---- fcntl, ioctl ---- */

static void socket_follow(int fd, int cmd, long arg, int result)
{
	int error = errno;

	if (cmd == F_SETFL && kind_of(fd) >= LISTENING)
		INSIDE(rfcntl(fd, F_SETFL, kind_of(fd) == LISTENING ? O_NONBLOCK : (int)arg));
	if ((cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) && result >= 0)
		socket_same(fd, result);
	errno = error;
}

#define FCNTL(name)                                          \
	PUBLIC int name(int fd, int cmd, ...)                \
	{                                                    \
		va_list ap;                                  \
		long arg;                                    \
		int result;                                  \
                                                             \
		va_start(ap, cmd);                           \
		arg = va_arg(ap, long);                      \
		va_end(ap);                                  \
		result = NEXT(name)(fd, cmd, arg);           \
		if (result >= 0 && kind_of(fd) != PLAIN)     \
			socket_follow(fd, cmd, arg, result); \
		return result;                               \
	}
FCNTL(fcntl)
FCNTL(fcntl64)

PUBLIC int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;
	int result;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request == FIONREAD && is_rdma(fd)) {
		int n = INSIDE(OPS.pending(fd));

		*(int *)arg = n < 0 ? 0 : n;
		return 0;
	}
	result = NEXT(ioctl)(fd, request, arg);
	if (!result && request == FIONBIO && is_rdma(fd))
		INSIDE(rfcntl(fd, F_SETFL, *(int *)arg ? O_NONBLOCK : 0));
	return result;
}
