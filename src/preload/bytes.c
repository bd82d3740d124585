/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading and writing. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "preload/bridge.h"
#include "preload/descriptor.h"
#include "preload/kind.h"
#include "preload/tuned.h"

/* A call on an rsocket; `again`: the call to repeat if the descriptor is no rsocket any more. */
#define MOVING(fd, call, again)                            \
	({                                                 \
		ssize_t n_ = call;                         \
		n_ < 0 && bridge_moved(fd) ? (again) : n_; \
	})

/* Calls of programs built with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buf, size_t length, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t length, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t length, size_t room, int flags, struct sockaddr *from,
		       socklen_t *size);
int __dprintf_chk(int fd, int flag, const char *format, ...);
int __vdprintf_chk(int fd, int flag, const char *format, va_list args);

/* Raises the signal of a write to a connection that is over. */
static ssize_t sent(ssize_t n, int flags)
{
	if (n < 0 && errno == EPIPE && !(flags & MSG_NOSIGNAL)) {
		raise(SIGPIPE);
		errno = EPIPE;
	}
	return n;
}

PUBLIC ssize_t read(int fd, void *buf, size_t length)
{
	return is_rdma(fd) ? MOVING(fd, INSIDE(rread(fd, buf, length)), read(fd, buf, length))
			   : NEXT(read)(fd, buf, length);
}

PUBLIC ssize_t __read_chk(int fd, void *buf, size_t length, size_t room)
{
	if (length > room)
		abort();
	return read(fd, buf, length);
}

PUBLIC ssize_t readv(int fd, const struct iovec *iov, int count)
{
	return is_rdma(fd) ? MOVING(fd, INSIDE(rreadv(fd, iov, count)), readv(fd, iov, count))
			   : NEXT(readv)(fd, iov, count);
}

PUBLIC ssize_t recv(int fd, void *buf, size_t length, int flags)
{
	return is_rdma(fd) ? MOVING(fd, INSIDE(rrecv(fd, buf, length, flags)), recv(fd, buf, length, flags))
			   : NEXT(recv)(fd, buf, length, flags);
}

PUBLIC ssize_t __recv_chk(int fd, void *buf, size_t length, size_t room, int flags)
{
	if (length > room)
		abort();
	return recv(fd, buf, length, flags);
}

PUBLIC ssize_t recvfrom(int fd, void *buf, size_t length, int flags, struct sockaddr *from, socklen_t *size)
{
	if (!is_rdma(fd))
		return NEXT(recvfrom)(fd, buf, length, flags, from, size);
	if (size)
		*size = 0; /* as TCP */
	return MOVING(fd, INSIDE(rrecv(fd, buf, length, flags)), recvfrom(fd, buf, length, flags, from, size));
}

PUBLIC ssize_t __recvfrom_chk(int fd, void *buf, size_t length, size_t room, int flags, struct sockaddr *from,
			      socklen_t *size)
{
	if (length > room)
		abort();
	return recvfrom(fd, buf, length, flags, from, size);
}

PUBLIC ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	if (!is_rdma(fd))
		return NEXT(recvmsg)(fd, m, flags);
	m->msg_namelen = 0; /* as TCP */
	return MOVING(fd, INSIDE(rrecvmsg(fd, m, flags)), recvmsg(fd, m, flags));
}

/* Receives messages. Waits for the first one without a time-out, as the kernel does. */
static int receive_some(int fd, struct mmsghdr *m, unsigned count, int flags, const struct timespec *timeout)
{
	uint64_t until = timeout ? clock_now() + (uint64_t)timeout->tv_sec * SEC + (uint64_t)timeout->tv_nsec : NEVER;
	unsigned n = 0;

	do {
		ssize_t length = recvmsg(fd, &m[n].msg_hdr, flags & ~MSG_WAITFORONE);

		if (length < 0)
			return n ? (int)n : -1;
		m[n++].msg_len = (unsigned)length;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
	} while (n < count && clock_now() < until);
	return (int)n;
}

PUBLIC int recvmmsg(int fd, struct mmsghdr *m, unsigned count, int flags, struct timespec *timeout)
{
	return is_rdma(fd) && count ? receive_some(fd, m, count, flags, timeout)
				    : NEXT(recvmmsg)(fd, m, count, flags, timeout);
}

PUBLIC ssize_t write(int fd, const void *buf, size_t length)
{
	return is_rdma(fd) ? MOVING(fd, sent(INSIDE(rwrite(fd, buf, length)), 0), write(fd, buf, length))
			   : NEXT(write)(fd, buf, length);
}

PUBLIC ssize_t writev(int fd, const struct iovec *iov, int count)
{
	return is_rdma(fd) ? MOVING(fd, sent(INSIDE(rwritev(fd, iov, count)), 0), writev(fd, iov, count))
			   : NEXT(writev)(fd, iov, count);
}

PUBLIC ssize_t send(int fd, const void *buf, size_t length, int flags)
{
	return is_rdma(fd)
		       ? MOVING(fd, sent(INSIDE(rsend(fd, buf, length, flags)), flags), send(fd, buf, length, flags))
		       : NEXT(send)(fd, buf, length, flags);
}

/* True if the bytes go by RDMA. A socket that MSG_FASTOPEN connects is PLAIN. */
static bool goes_by_rdma(int fd, int flags)
{
	if (flags & MSG_FASTOPEN && (kind_of(fd) == FRESH || kind_of(fd) == ALTERED))
		let_go(fd);
	return is_rdma(fd);
}

PUBLIC ssize_t sendto(int fd, const void *buf, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
	return goes_by_rdma(fd, flags)
		       ? MOVING(fd, sent(INSIDE(rsend(fd, buf, length, flags)), flags), send(fd, buf, length, flags))
		       : NEXT(sendto)(fd, buf, length, flags, to, size);
}

/* Turns descriptors that are passed to another process into bridges. */
static void bridge_passed(const struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR((struct msghdr *)m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
			int fd;

			memcpy(&fd, (char *)c + at, sizeof(fd));
			bridge_if_rdma(fd);
		}
	}
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (goes_by_rdma(fd, flags))
		return MOVING(fd, sent(INSIDE(rsendmsg(fd, m, flags)), flags), sendmsg(fd, m, flags));
	if (!inside && m && m->msg_controllen)
		bridge_passed(m);
	return NEXT(sendmsg)(fd, m, flags);
}

PUBLIC int sendmmsg(int fd, struct mmsghdr *m, unsigned count, int flags)
{
	unsigned n = 0;

	if (!is_rdma(fd)) {
		for (; !inside && n < count; n++)
			if (m[n].msg_hdr.msg_controllen)
				bridge_passed(&m[n].msg_hdr);
		return NEXT(sendmmsg)(fd, m, count, flags);
	}
	for (; n < count; n++) {
		ssize_t length = sendmsg(fd, &m[n].msg_hdr, flags);

		if (length < 0)
			return n ? (int)n : -1;
		m[n].msg_len = (unsigned)length;
	}
	return (int)n;
}

/* ---- the C library's own writes ---- */

static int write_all(int fd, const char *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = write(fd, bytes + done, length - done);

		if (n < 0)
			return -1;
		done += (size_t)n;
	}
	return (int)length;
}

PUBLIC int vdprintf(int fd, const char *format, va_list args)
{
	char *text;
	int length;

	if (!is_rdma(fd))
		return NEXT(vdprintf)(fd, format, args);
	length = vasprintf(&text, format, args);
	if (length < 0)
		return length;
	length = write_all(fd, text, (size_t)length);
	free(text);
	return length;
}

PUBLIC int __vdprintf_chk(int fd, int flag, const char *format, va_list args)
{
	return is_rdma(fd) ? vdprintf(fd, format, args) : NEXT(__vdprintf_chk)(fd, flag, format, args);
}

#define DPRINTF(name, parameters, call) \
	PUBLIC int name parameters      \
	{                               \
		va_list args;           \
		int n;                  \
                                        \
		va_start(args, format); \
		n = call;               \
		va_end(args);           \
		return n;               \
	}
DPRINTF(dprintf, (int fd, const char *format, ...), vdprintf(fd, format, args))
DPRINTF(__dprintf_chk, (int fd, int flag, const char *format, ...), __vdprintf_chk(fd, flag, format, args))

PUBLIC FILE *fdopen(int fd, const char *mode)
{
	bridge_if_rdma(fd);
	return NEXT(fdopen)(fd, mode);
}

/* ---- files ---- */

static ssize_t send_piece(int out, int in, off_t at, size_t length)
{
	char bytes[CARRY_BYTES];
	ssize_t n = pread(in, bytes, length < CARRY_BYTES ? length : CARRY_BYTES, at);

	return n <= 0 ? n : rsend(out, bytes, (size_t)n, 0);
}

static ssize_t send_file(int out, int in, off_t *at, size_t length)
{
	off_t from = at ? *at : lseek(in, 0, SEEK_CUR);
	size_t done = 0;
	ssize_t n = 0;

	while (done < length) {
		n = send_piece(out, in, from + (off_t)done, length - done);
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (at)
		*at = from + (off_t)done;
	else
		lseek(in, from + (off_t)done, SEEK_SET);
	return done ? (ssize_t)done : n;
}

#define SENDFILE(name)                                                                \
	PUBLIC ssize_t name(int out, int in, off_t *at, size_t length)                \
	{                                                                             \
		return is_rdma(out) ? sent(INSIDE(send_file(out, in, at, length)), 0) \
				    : NEXT(name)(out, in, at, length);                \
	}
SENDFILE(sendfile)
SENDFILE(sendfile64)

/* ---- pipes: splice() ---- */

/* Splices bytes that the socket takes: from a copy of the pipe's, as none can be put back. */
static ssize_t pipe_to_socket(int from, int to, size_t length, unsigned flags)
{
	char bytes[CARRY_BYTES];
	int copy[2];
	ssize_t n, done;

	if (pipe2(copy, O_CLOEXEC))
		return -1;
	n = tee(from, copy[1], min_of(length, sizeof(bytes)), flags & SPLICE_F_NONBLOCK);
	if (n > 0)
		n = NEXT(read)(copy[0], bytes, (size_t)n);
	done = n > 0 ? rsend(to, bytes, (size_t)n, 0) : n;
	for (ssize_t left = done; left > 0; left -= n)
		n = NEXT(read)(from, bytes, (size_t)left);
	NEXT(close)(copy[0]);
	NEXT(close)(copy[1]);
	return done;
}

static bool has_room(int pipe)
{
	struct pollfd p = {.fd = pipe, .events = POLLOUT};

	return NEXT(poll)(&p, 1, 0) > 0;
}

/* Splices at most PIPE_BUF bytes; with SPLICE_F_NONBLOCK only if they fit. */
static ssize_t socket_to_pipe(int from, int to, size_t length, unsigned flags)
{
	char bytes[PIPE_BUF];
	ssize_t n;

	if (flags & SPLICE_F_NONBLOCK && !has_room(to)) {
		errno = EAGAIN;
		return -1;
	}
	n = rrecv(from, bytes, min_of(length, sizeof(bytes)), MSG_PEEK);
	if (n > 0)
		n = NEXT(write)(to, bytes, (size_t)n);
	if (n > 0)
		n = rrecv(from, bytes, (size_t)n, 0);
	return n;
}

/* Splices more pieces, as long as none must wait. */
static ssize_t socket_to_pipe_all(int from, int to, size_t length, unsigned flags)
{
	ssize_t n = socket_to_pipe(from, to, length, flags), done = n;

	while (n > 0 && (size_t)done < length && OPS.pending(from) > 0 && has_room(to)) {
		n = socket_to_pipe(from, to, length - (size_t)done, flags);
		if (n > 0)
			done += n;
	}
	return done;
}

PUBLIC ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags)
{
	bool receives = is_rdma(from);

	if (!receives && !is_rdma(to))
		return NEXT(splice)(from, from_at, to, to_at, length, flags);
	if (from_at || to_at) {
		errno = ESPIPE;
		return -1;
	}
	return MOVING(receives ? from : to,
		      receives ? INSIDE(socket_to_pipe_all(from, to, length, flags))
			       : sent(INSIDE(pipe_to_socket(from, to, length, flags)), 0),
		      splice(from, NULL, to, NULL, length, flags));
}
