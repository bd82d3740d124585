/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fork.h"
#include "preload/bridge.h"
#include "preload/descriptor.h"
#include "preload/early.h"
#include "preload/inherit.h"
#include "preload/kind.h"

/* Held while a PENDING listener begins to listen, so that all threads that wait for connections find it LISTENING. Not
 * held around a fork: calls under it take locks that are. */
static struct lock listen_lock = LOCK_RANKED(PRELOAD_LISTEN);

/* ---- forks ---- */

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

/* In a child, connections of the parent are INHERITED; the child may listen where the parent does not. */
static void socket_in_child(void) RELEASE(move_lock)
{
	bool inherits;

	lock_drop(&move_lock);
	listen_lock = (struct lock)LOCK_RANKED(PRELOAD_LISTEN);
	early_forget_all();
	bridges_in_child();
	inherits = inherit_in_child();
	for (size_t fd = 0; fd < ARRAY_SIZE(kinds); fd++) {
		enum kind kind = kind_of((int)fd);

		if (kind == LISTENING)
			set_kind((int)fd, PENDING);
		else if (kind == FRESH) /* the parent may set options */
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

/* vfork() as fork(): its child would change the kinds of its parent's descriptors. */
PUBLIC pid_t vfork(void)
{
	return fork();
}

static bool socket_is_nonblocking(int fd)
{
	return NEXT(fcntl)(fd, F_GETFL) & O_NONBLOCK;
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

	let_go(fd); /* the number may have been closed by a call that is not interposed */
	if (fd >= 0 && !inside && &OPS && is_tcp(domain, type, protocol))
		set_kind(fd, FRESH);
	else
		set_kind(fd, PLAIN);
	return fd;
}

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

/* Copies options that were set before the rsocket was made. */
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

/* True for 127.0.0.0/8 except 127.0.0.1: librdmacm takes it for any address. */
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
	rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* the kernel has bound it, so it is free */
	return rbind(fd, &name->any, length) ? -errno : 0;
}

/* Refuses calls that the kernel would allow, as it does not know that the socket is connected. */
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

/* Moves or forgets a descriptor of `early`, as its kind is known now. */
static void early_either(int fd)
{
	if (kind_of(fd) == PLAIN)
		early_forget(fd);
	else
		early_move(fd);
}

void wake_listener(int fd)
{
	int error = errno;

	if (kind_of(fd) != PENDING)
		return;
	lock_take(&listen_lock);
	/* if listen_too() fails, connections come by TCP only */
	if (kind_of(fd) == PENDING)
		set_kind(fd, INSIDE(listen_too(fd)) ? PLAIN : LISTENING);
	early_either(fd);
	lock_drop(&listen_lock);
	errno = error;
}

static int accept_plain(int listener, struct sockaddr *address, socklen_t *length, int flags)
{
	int fd = NEXT(accept4)(listener, address, length, flags);

	let_go(fd); /* as in socket() */
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

/* The receive time-out in ms; -1: none. */
static int receive_time(int fd)
{
	struct timeval t = {0};
	socklen_t length = sizeof(t);

	NEXT(getsockopt)(fd, SOL_SOCKET, SO_RCVTIMEO, &t, &length);
	return t.tv_sec || t.tv_usec ? (int)(t.tv_sec * 1000 + (t.tv_usec + 999) / 1000) : -1;
}

/* Accepts the next connection, by RDMA or by TCP. */
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
	if (err == -EINPROGRESS && !nonblocking) { /* timed out */
		INSIDE((OPS.detach(fd), 0));
		err = -ETIMEDOUT;
	}
	set_kind(fd, !err ? RDMA : err == -EINPROGRESS ? CONNECTING : PLAIN);
	early_either(fd);
	if (err == -EINPROGRESS) {
		errno = EINPROGRESS;
		return -1;
	}
	return err ? NEXT(connect)(fd, address, length) : 0;
}

PUBLIC int shutdown(int fd, int how)
{
	return is_rdma(fd) ? INSIDE(rshutdown(fd, how)) : NEXT(shutdown)(fd, how);
}

/* ---- names and options: set on the socket and on the rsocket ---- */

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

	if (level == SOL_SOCKET && name == SO_ZEROCOPY && kind_of(fd) != PLAIN) { /* no notification would come */
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
		result = 0; /* options of TCP or IP have no effect on an rsocket */
	errno = error;
	return result;
}

PUBLIC int getsockopt(int fd, int level, int name, void *to, socklen_t *room)
{
	if (is_rdma(fd) && ((level == SOL_SOCKET && name == SO_ERROR) || level == IPPROTO_TCP))
		return INSIDE(rgetsockopt(fd, level, name, to, room));
	return NEXT(getsockopt)(fd, level, name, to, room);
}

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
