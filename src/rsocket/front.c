/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of rdma/rsocket.h: as their namesakes without the r. */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/msan.h"
#include "rsocket/attach.h"
#include "rsocket/await.h"
#include "rsocket/cm_events.h"
#include "rsocket/connect.h"
#include "rsocket/datagram.h"
#include "rsocket/endpoint.h"
#include "rsocket/epoll.h"
#include "rsocket/flow.h"
#include "rsocket/iomap.h"
#include "rsocket/option.h"
#include "rsocket/peers.h"
#include "rsocket/poll.h"
#include "rsocket/stream.h"
#include "rsocket/table.h"
#include "rsocket/timeout.h"
#include "rsocket/tuned.h"
#include "rsocket/waiter.h"

/* ---- making ---- */

static void rsocket_destroy(struct rsocket *rs)
{
	lock_assert_unshared(&rs->lock);
	iomap_forget(rs);
	timeout_forget(rs);
	cm_events_forget(rs);
	endpoint_destroy(rs);
	datagram_free(rs);
	free(rs->route);
}

int rsocket_attach(int fd, int domain, int type, bool beneath)
{
	struct rsocket *rs = rsocket_make(fd, domain, type, rsocket_destroy);
	int err;

	if (!rs)
		return -ENOMEM;
	lock_assert_unshared(&rs->lock);
	rs->beneath = beneath;
	err = is_datagram(rs) ? datagram_open(rs) : 0;
	if (!err)
		err = rsocket_install(rs);
	rsocket_put(rs);
	return err;
}

int rsocket_share(int fd, int other)
{
	struct rsocket *rs = rsocket_get(fd), *there = rsocket_get(other);
	int err = !rs ? -EBADF : there ? -EBUSY : rsocket_install_at(rs, other);

	if (there)
		rsocket_put(there);
	if (rs)
		rsocket_put(rs);
	return err;
}

int rsocket_give(int number, bool given)
{
	struct rsocket *rs = rsocket_get(number);
	int handles;

	if (!rs)
		return -EBADF;
	lock_take(&rs->lock);
	rs->given = given;
	lock_drop(&rs->lock);
	rsocket_wake(rs);
	handles = (int)atomic_load_explicit(&rs->handles, memory_order_relaxed);
	rsocket_put(rs);
	return handles;
}

bool rsocket_is_same(int fd, int other)
{
	struct rsocket *a = rsocket_get(fd), *b = rsocket_get(other);
	bool same = a && a == b;

	if (a)
		rsocket_put(a);
	if (b)
		rsocket_put(b);
	return same;
}

void rsocket_hand_back(int fd)
{
	struct rsocket *rs = rsocket_get(fd);

	if (!rs)
		return;
	rsocket_epoll_hand_back(rs, fd);
	rsocket_put(rs);
	rsocket_detach(fd);
}

void rsocket_detach(int fd)
{
	struct rsocket *rs = rsocket_remove(fd);

	if (rs)
		rsocket_close(rs);
}

int rsocket_pending(int fd)
{
	return WITH_RSOCKET(fd, rs, int, (stream_process(rs), (int)rs->stream.rx_ready));
}

static enum rsocket_state front_state_of(int fd)
{
	struct rsocket *rs = rsocket_get(fd);
	enum rsocket_state state = rs ? rsocket_state(rs) : RS_NEW;

	if (rs)
		rsocket_put(rs);
	return state;
}

bool rsocket_is_plain(int fd)
{
	return front_state_of(fd) == RS_PLAIN;
}

bool rsocket_is_settled(int fd)
{
	enum rsocket_state state = front_state_of(fd);

	return state == RS_CONNECTED || state == RS_OVER;
}

static int try_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length) REQUIRES(rs->lock)
{
	int err;

	rs->falls_back = true;
	memcpy(&rs->peer, address, min_of(length, (socklen_t)sizeof(rs->peer)));
	if (peer_is_silent((struct sockaddr *)&rs->peer))
		return -EHOSTUNREACH;
	err = rsocket_connect(rs, address, length);
	if (err == -EINPROGRESS && rsocket_is_nonblocking(rs))
		timeout_connect(rs, clock_now() + TRY_TIME);
	else if (err == -EINPROGRESS) /* rsocket_connect() has waited TRY_TIME */
		peer_was_silent((struct sockaddr *)&rs->peer);
	return err;
}

int rsocket_try_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	int result = WITH_RSOCKET(fd, rs, int, try_connect(rs, address, length));

	return result ? -errno : 0;
}

void rsocket_watch_forks(const struct fork_handlers *handlers)
{
	fork_watch(FORK_PRELOAD, handlers);
}

PUBLIC const struct rsocket_attach_ops uroce_rsocket_attach = {
#define ATTACH(type, name, arguments) .name = rsocket_##name,
#include "rsocket/attach.def"
#undef ATTACH
};

PUBLIC int rsocket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), fd, err;

	if (domain != AF_INET && domain != AF_INET6)
		return fail_minus(EAFNOSUPPORT);
	if ((kind != SOCK_STREAM || (protocol && protocol != IPPROTO_TCP)) &&
	    (kind != SOCK_DGRAM || (protocol && protocol != IPPROTO_UDP)))
		return fail_minus(EPROTONOSUPPORT);
	/* a datagram goes by UDP until its receiver's QP is known */
	fd = kind == SOCK_DGRAM ? socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0) : eventfd(0, EFD_CLOEXEC);
	if (fd < 0)
		return -1;
	err = rsocket_attach(fd, domain, kind, false);
	if (err) {
		close(fd);
		return fail_minus(-err);
	}
	if (type & SOCK_NONBLOCK)
		rfcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

PUBLIC int rclose(int fd)
{
	struct rsocket *rs = rsocket_remove(fd);

	if (!rs)
		return fail_minus(EBADF);
	rsocket_close(rs);
	return close(fd); /* last, so that the number is no other descriptor while the rsocket has it */
}

PUBLIC int rbind(int fd, const struct sockaddr *address, socklen_t length)
{
	return WITH_RSOCKET(fd, rs, int,
			    is_datagram(rs) ? datagram_bind(rs, address, length) : rsocket_bind(rs, address, length));
}

PUBLIC int rlisten(int fd, int backlog)
{
	return WITH_RSOCKET(fd, rs, int, is_datagram(rs) ? -EOPNOTSUPP : rsocket_listen(rs, backlog));
}

PUBLIC int rconnect(int fd, const struct sockaddr *address, socklen_t length)
{
	return WITH_RSOCKET(fd, rs, int,
			    is_datagram(rs) ? datagram_connect(rs, address, length)
					    : rsocket_connect(rs, address, length));
}

/* ---- accepting ---- */

static bool has_connection(struct rsocket *rs)
{
	return !list_empty(&rs->accepted) || rsocket_state(rs) != RS_LISTENING;
}

/* Handles events first, if none is there. */
static bool look_for_connection(struct rsocket *rs) REQUIRES(rs->lock)
{
	if (!has_connection(rs)) {
		lock_drop(&rs->lock);
		cm_events_run();
		lock_take(&rs->lock);
	}
	return has_connection(rs);
}

bool rsocket_has_connection(int listener)
{
	return WITH_RSOCKET(listener, rs, int, look_for_connection(rs)) != 0;
}

static int accept_next(struct rsocket *rs, struct rsocket **made) REQUIRES(rs->lock)
{
	int err = 0;

	if (is_datagram(rs))
		return -EOPNOTSUPP;
	if (rsocket_state(rs) != RS_LISTENING)
		return -EINVAL;
	if (!look_for_connection(rs) && rsocket_is_nonblocking(rs)) {
		rsocket_progress(rs); /* the call may be repeated without end */
		if (!look_for_connection(rs))
			return -EAGAIN;
	}
	if (!has_connection(rs))
		err = rsocket_await(rs, has_connection, rsocket_until(rs->receive_ms));
	*made = err ? NULL : rsocket_next(rs);
	return err ?: *made ? 0 : -EINVAL;
}

int rsocket_accept(int listener, int fd)
{
	struct rsocket *made = NULL;
	int result = WITH_RSOCKET(listener, rs, int, accept_next(rs, &made));

	if (result)
		return -errno;
	made->fd = fd;
	result = rsocket_install(made);
	rsocket_put(made);
	return result;
}

static void close_fd(void *fd)
{
	close(*(int *)fd);
}

PUBLIC int raccept(int listener, struct sockaddr *address, socklen_t *length)
{
	int fd = eventfd(0, EFD_CLOEXEC), err;

	if (fd < 0)
		return -1;
	pthread_cleanup_push(close_fd, &fd);
	err = rsocket_accept(listener, fd);
	pthread_cleanup_pop(0);
	if (err) {
		close(fd);
		return fail_minus(-err);
	}
	if (address && length)
		rgetpeername(fd, address, length);
	return fd;
}

PUBLIC int rshutdown(int fd, int how)
{
	if (how < SHUT_RD || how > SHUT_RDWR)
		return fail_minus(EINVAL);
	return WITH_RSOCKET(fd, rs, int, is_datagram(rs) ? 0 : stream_shutdown(rs, how));
}

/* ---- bytes ---- */

/* Tells MemorySanitizer of the program, which has not seen the copies. */
static __attribute__((cold)) void front_received(const struct iovec *iov, int count, ssize_t n)
{
	for (int i = 0; i < count && n > 0; n -= (ssize_t)iov[i++].iov_len)
		msan_wrote(iov[i].iov_base, min_of(iov[i].iov_len, (size_t)n));
}

/* The same of an address, as far as there was room. */
static void front_named(int result, const struct sockaddr *to, const socklen_t *room, socklen_t before)
{
	if (!msan_is_there() || result < 0 || !to || !room)
		return;
	msan_wrote(room, sizeof(*room));
	msan_wrote(to, min_of(*room, before));
}

static ssize_t front_receive(int fd, const struct iovec *iov, int count, int flags, struct sockaddr *from,
			     socklen_t *room)
{
	socklen_t before = room ? *room : 0;
	ssize_t n = WITH_RSOCKET(
		fd, rs, ssize_t,
		is_datagram(rs) ? datagram_receive(rs, iov, count, flags, from, room)
				: stream_receive(rs, iov, count, fd >= RSOCKET_NUMBERS ? flags | RS_BRIDGES : flags));

	if (msan_is_there()) {
		front_received(iov, count, n);
		front_named((int)min_of(n, 0), from, room, before);
	}
	return n;
}

static ssize_t front_send_all(int fd, const struct iovec *iov, int count, int flags, const struct sockaddr *to,
			      socklen_t length)
{
	return WITH_RSOCKET(fd, rs, ssize_t,
			    is_datagram(rs) ? datagram_send(rs, iov, count, flags, to, length)
					    : stream_send(rs, iov, count, flags));
}

PUBLIC ssize_t rrecv(int fd, void *buf, size_t length, int flags)
{
	return front_receive(fd, &(struct iovec){buf, length}, 1, flags, NULL, NULL);
}

PUBLIC ssize_t rrecvfrom(int fd, void *buf, size_t length, int flags, struct sockaddr *from, socklen_t *room)
{
	return front_receive(fd, &(struct iovec){buf, length}, 1, flags, from, room);
}

PUBLIC ssize_t rrecvmsg(int fd, struct msghdr *m, int flags)
{
	socklen_t room = m->msg_namelen;
	ssize_t n = front_receive(fd, m->msg_iov, (int)m->msg_iovlen, flags, m->msg_name, m->msg_name ? &room : NULL);

	if (n < 0)
		return n;
	m->msg_namelen = m->msg_name ? room : 0;
	m->msg_controllen = 0;
	m->msg_flags = 0;
	msan_wrote(m, sizeof(*m));
	return n;
}

PUBLIC ssize_t rread(int fd, void *buf, size_t length)
{
	return rrecv(fd, buf, length, 0);
}

PUBLIC ssize_t rreadv(int fd, const struct iovec *iov, int count)
{
	return front_receive(fd, iov, count, 0, NULL, NULL);
}

PUBLIC ssize_t rsend(int fd, const void *buf, size_t length, int flags)
{
	return front_send_all(fd, &(struct iovec){(void *)buf, length}, 1, flags, NULL, 0);
}

PUBLIC ssize_t rsendto(int fd, const void *buf, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
	return front_send_all(fd, &(struct iovec){(void *)buf, length}, 1, flags, to, size);
}

PUBLIC ssize_t rsendmsg(int fd, const struct msghdr *m, int flags)
{
	return front_send_all(fd, m->msg_iov, (int)m->msg_iovlen, flags, m->msg_name, m->msg_namelen);
}

PUBLIC ssize_t rwrite(int fd, const void *buf, size_t length)
{
	return rsend(fd, buf, length, 0);
}

PUBLIC ssize_t rwritev(int fd, const struct iovec *iov, int count)
{
	return front_send_all(fd, iov, count, 0, NULL, 0);
}

/* ---- names ---- */

/* The IPv4 address as an IPv6 socket names it: ::ffff:a.b.c.d. */
static struct sockaddr_in6 mapped(const struct sockaddr_in *in)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = in->sin_port};

	in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(in6.sin6_addr.s6_addr + 12, &in->sin_addr, sizeof(in->sin_addr));
	return in6;
}

static int put_name(const struct sockaddr *name, struct sockaddr *to, socklen_t *room)
{
	socklen_t length = name->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	if (!to || !room)
		return -EFAULT;
	memcpy(to, name, min_of(length, *room));
	*room = length;
	return 0;
}

/* A listener on IPv6's wildcard gets connections over IPv4, too. */
static int give_name(const struct rsocket *rs, const struct sockaddr *name, struct sockaddr *to, socklen_t *room)
{
	struct sockaddr_in6 in6;

	if (rs->domain != AF_INET6 || name->sa_family != AF_INET)
		return put_name(name, to, room);
	in6 = mapped((const struct sockaddr_in *)name);
	return put_name((struct sockaddr *)&in6, to, room);
}

static int own_name(struct rsocket *rs, struct sockaddr *to, socklen_t *room) REQUIRES(rs->lock)
{
	struct sockaddr_storage none = {.ss_family = (sa_family_t)rs->domain};

	if (is_datagram(rs))
		return getsockname(rs->fd, to, room) ? -errno : 0;
	if (!rs->id || !rs->id->route.addr.src_addr.sa_family)
		return give_name(rs, (struct sockaddr *)&none, to, room);
	return give_name(rs, &rs->id->route.addr.src_addr, to, room);
}

static int peer_name(struct rsocket *rs, struct sockaddr *to, socklen_t *room) REQUIRES(rs->lock)
{
	if (is_datagram(rs))
		return getpeername(rs->fd, to, room) ? -errno : 0;
	if (rsocket_state(rs) < RS_CONNECTED || !rs->id)
		return -ENOTCONN;
	return give_name(rs, &rs->id->route.addr.dst_addr, to, room);
}

PUBLIC int rgetsockname(int fd, struct sockaddr *to, socklen_t *room)
{
	socklen_t before = room ? *room : 0;
	int result = WITH_RSOCKET(fd, rs, int, own_name(rs, to, room));

	front_named(result, to, room, before);
	return result;
}

PUBLIC int rgetpeername(int fd, struct sockaddr *to, socklen_t *room)
{
	socklen_t before = room ? *room : 0;
	int result = WITH_RSOCKET(fd, rs, int, peer_name(rs, to, room));

	front_named(result, to, room, before);
	return result;
}

/* ---- options ---- */

PUBLIC int rsetsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	return WITH_RSOCKET(fd, rs, int, option_set(rs, level, name, value, length));
}

PUBLIC int rgetsockopt(int fd, int level, int name, void *to, socklen_t *room)
{
	socklen_t before = room ? *room : 0;
	int result = WITH_RSOCKET(fd, rs, int, option_get(rs, level, name, to, room));

	front_named(result, to, room, before);
	return result;
}

/* Status flags are the rsocket's; descriptor flags the descriptor's. */
static int front_control(struct rsocket *rs, int cmd, int arg)
{
	switch (cmd) {
	case F_GETFL:
		return O_RDWR | (rsocket_is_nonblocking(rs) ? O_NONBLOCK : 0);
	case F_SETFL:
		atomic_store_explicit(&rs->nonblocking, arg & O_NONBLOCK, memory_order_relaxed);
		return 0;
	case F_GETFD:
	case F_SETFD: {
		int result = fcntl(rs->fd, cmd, arg);

		return result < 0 ? -errno : result;
	}
	default:
		return -EINVAL;
	}
}

PUBLIC int rfcntl(int fd, int cmd, ...)
{
	va_list args;
	int arg;

	va_start(args, cmd);
	arg = va_arg(args, int);
	va_end(args);
	return WITH_RSOCKET(fd, rs, int, front_control(rs, cmd, arg));
}

/* ---- poll and select ---- */

PUBLIC int rpoll(struct pollfd *fds, nfds_t count, int timeout)
{
	uint64_t until = timeout < 0 ? NEVER : timeout ? rsocket_until(timeout) : 0;
	int result = rsocket_poll(fds, count, until);

	msan_wrote(fds, count * sizeof(*fds));
	return result < 0 ? fail_minus(-result) : result;
}

static short wanted(int fd, const fd_set *in, const fd_set *out, const fd_set *except)
{
	return (short)((in && FD_ISSET(fd, in) ? POLLIN : 0) | (out && FD_ISSET(fd, out) ? POLLOUT : 0) |
		       (except && FD_ISSET(fd, except) ? POLLPRI : 0));
}

static int put_back(const struct pollfd *p, fd_set *set, short if_asked, short if_true)
{
	bool is = (p->events & if_asked) && (p->revents & if_true);

	if (!set)
		return 0;
	if (is)
		FD_SET(p->fd, set);
	else
		FD_CLR(p->fd, set);
	return is;
}

PUBLIC int rselect(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	uint64_t ns = timeout ? (uint64_t)timeout->tv_sec * SEC + (uint64_t)timeout->tv_usec * USEC : 0;
	struct pollfd *fds = calloc((size_t)max_of(n, 1), sizeof(*fds));
	nfds_t count = 0;
	int result, bits = 0;

	if (!fds)
		return fail_minus(ENOMEM);
	for (int fd = 0; fd < n; fd++) {
		short events = wanted(fd, in, out, except);

		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	result = rsocket_poll(fds, count, !timeout ? NEVER : ns ? clock_now() + ns : 0);
	for (nfds_t i = 0; i < count && result >= 0; i++) {
		if (fds[i].revents & POLLNVAL)
			result = -EBADF;
		bits += put_back(&fds[i], in, POLLIN, POLLIN | POLLHUP | POLLERR);
		bits += put_back(&fds[i], out, POLLOUT, POLLOUT | POLLERR);
		bits += put_back(&fds[i], except, POLLPRI, POLLPRI);
	}
	free(fds);
	return result < 0 ? fail_minus(-result) : bits;
}
