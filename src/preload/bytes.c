/* Bytes. SPDX-License-Identifier: BSD-2-Clause */
#include "preload/preload.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

/* What programs call that were built with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buf, size_t length, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t length, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t length, size_t room, int flags, struct sockaddr *from, socklen_t *size);

/* Writing to a connection that is over raises a signal, as a rule. */
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
	return is_rdma(fd) ? INSIDE(rread(fd, buf, length)) : NEXT(read)(fd, buf, length);
}

PUBLIC ssize_t __read_chk(int fd, void *buf, size_t length, size_t room)
{
	if (length > room)
		abort();
	return read(fd, buf, length);
}

PUBLIC ssize_t readv(int fd, const struct iovec *iov, int count)
{
	return is_rdma(fd) ? INSIDE(rreadv(fd, iov, count)) : NEXT(readv)(fd, iov, count);
}

PUBLIC ssize_t recv(int fd, void *buf, size_t length, int flags)
{
	return is_rdma(fd) ? INSIDE(rrecv(fd, buf, length, flags)) : NEXT(recv)(fd, buf, length, flags);
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
		*size = 0; /* as TCP has it */
	return INSIDE(rrecv(fd, buf, length, flags));
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
	return is_rdma(fd) ? INSIDE(rrecvmsg(fd, m, flags)) : NEXT(recvmsg)(fd, m, flags);
}

PUBLIC ssize_t write(int fd, const void *buf, size_t length)
{
	return is_rdma(fd) ? sent(INSIDE(rwrite(fd, buf, length)), 0) : NEXT(write)(fd, buf, length);
}

PUBLIC ssize_t writev(int fd, const struct iovec *iov, int count)
{
	return is_rdma(fd) ? sent(INSIDE(rwritev(fd, iov, count)), 0) : NEXT(writev)(fd, iov, count);
}

PUBLIC ssize_t send(int fd, const void *buf, size_t length, int flags)
{
	return is_rdma(fd) ? sent(INSIDE(rsend(fd, buf, length, flags)), flags) : NEXT(send)(fd, buf, length, flags);
}

PUBLIC ssize_t sendto(int fd, const void *buf, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
	return is_rdma(fd) ? sent(INSIDE(rsend(fd, buf, length, flags)), flags)
			   : NEXT(sendto)(fd, buf, length, flags, to, size);
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	return is_rdma(fd) ? sent(INSIDE(rsendmsg(fd, m, flags)), flags) : NEXT(sendmsg)(fd, m, flags);
}

/* ---- files ---- */

#define PIECE (64 << 10)

static ssize_t send_piece(int out, int in, off_t at, size_t length)
{
	char bytes[PIECE];
	ssize_t n = pread(in, bytes, length < PIECE ? length : PIECE, at);

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

#define SENDFILE(name)                                                                       \
	PUBLIC ssize_t name(int out, int in, off_t *at, size_t length)                       \
	{                                                                                    \
		return is_rdma(out) ? sent(INSIDE(send_file(out, in, at, length)), 0)        \
				    : NEXT(name)(out, in, at, length);                       \
	}
SENDFILE(sendfile)
SENDFILE(sendfile64)
