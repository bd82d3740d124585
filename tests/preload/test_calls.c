// SPDX-License-Identifier: BSD-2-Clause
// The C library's calls on sockets, as src/preload has them: this program is linked with its sources, so its calls are
// theirs.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop/netns.h"
#include "preload/bridge.h"
#include "preload/kind.h"

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif

enum { LENGTH = 20000 };

static char bytes[LENGTH], got[LENGTH];

static int listener_at(struct sockaddr_in *name)
{
	socklen_t size = sizeof(*name);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(fd, (struct sockaddr *)name, sizeof(*name)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)name, &size), 0);
	return fd;
}

static int connect_to(const struct sockaddr_in *name)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)name, sizeof(*name)), 0);
	return fd;
}

/* By RDMA: the listener is waited for before the client comes. */
static void open_pair(int end[2])
{
	struct sockaddr_in name;
	int listener = listener_at(&name);
	struct pollfd p = {.fd = listener, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 0), 0);
	end[0] = connect_to(&name);
	end[1] = accept(listener, NULL, NULL);
	assert_true(end[1] >= 0);
	assert_int_equal(close(listener), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(kind_of(end[i]), RDMA);
}

static void close_pair(const int end[2])
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(close(end[i]), 0);
		assert_int_equal(kind_of(end[i]), PLAIN);
	}
}

static void only_tcp_sockets_may_go_by_rdma(void **state)
{
	static const struct {
		int domain, type, protocol;
		enum kind kind;
	} rows[] = {
		{AF_INET, SOCK_STREAM, 0, FRESH},  {AF_INET, SOCK_STREAM, IPPROTO_TCP, FRESH},
		{AF_INET6, SOCK_STREAM, 0, FRESH}, {AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, FRESH},
		{AF_INET, SOCK_DGRAM, 0, PLAIN},   {AF_INET6, SOCK_DGRAM, IPPROTO_UDP, PLAIN},
		{AF_UNIX, SOCK_STREAM, 0, PLAIN},  {AF_NETLINK, SOCK_RAW, 0, PLAIN},
	};

	bool has_ipv6 = netns_has_ipv6();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int fd = socket(rows[i].domain, rows[i].type, rows[i].protocol);

		if (rows[i].domain == AF_INET6 && !has_ipv6)
			continue;

		assert_true(fd >= 0);
		assert_int_equal(kind_of(fd), rows[i].kind);
		close(fd);
	}
}

static int no_call(int fd)
{
	return 0;
}

static int set_option(int fd)
{
	return setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
}

static int call_listen(int fd)
{
	return listen(fd, 1);
}

static int listen_and_poll(int fd)
{
	return listen(fd, 1) ?: poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0);
}

static int listen_and_select(int fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return listen(fd, 1) ?: select(fd + 1, &set, NULL, NULL, &(struct timeval){0});
}

static int call_dup(int fd)
{
	int other = dup(fd), same = kind_of(other) == kind_of(fd);

	return close(other) || !same;
}

/* What was there before is gone. */
static int put_a_pipe_there(int fd)
{
	int ends[2], result = pipe(ends) || dup2(ends[0], fd) != fd;

	close(ends[0]);
	close(ends[1]);
	return result;
}

static int close_a_range(int fd)
{
	return close_range((unsigned)fd, (unsigned)fd, 0);
}

static void calls_change_what_a_descriptor_is(void **state)
{
	static const struct {
		int (*call)(int fd);
		enum kind kind;
	} rows[] = {
		{no_call, FRESH},
		{set_option, ALTERED},
		{call_listen, PENDING},
		{listen_and_poll, LISTENING},
		{listen_and_select, LISTENING},
		{call_dup, ALTERED},
		{put_a_pipe_there, PLAIN},
		{close_a_range, PLAIN},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		assert_int_equal(rows[i].call(fd), 0);
		if (kind_of(fd) != rows[i].kind)
			print_message("# row %zu\n", i);
		assert_int_equal(kind_of(fd), rows[i].kind);
		close(fd);
	}
}

/* ---- bytes: each call that sends, with each that receives ---- */

static ssize_t by_writev(int fd)
{
	struct iovec iov[] = {{bytes, 7}, {bytes + 7, LENGTH - 7}};

	return writev(fd, iov, 2);
}

static ssize_t by_write(int fd)
{
	return write(fd, bytes, LENGTH);
}

static ssize_t by_send(int fd)
{
	return send(fd, bytes, LENGTH, 0);
}

static ssize_t by_sendto(int fd)
{
	return sendto(fd, bytes, LENGTH, 0, NULL, 0);
}

static ssize_t by_sendmsg(int fd)
{
	struct iovec iov[] = {{bytes, 5000}, {bytes + 5000, LENGTH - 5000}};

	return sendmsg(fd, &(struct msghdr){.msg_iov = iov, .msg_iovlen = 2}, 0);
}

static ssize_t by_sendmmsg(int fd)
{
	struct iovec iov[] = {{bytes, 100}, {bytes + 100, LENGTH - 100}};
	struct mmsghdr m[] = {{.msg_hdr = {.msg_iov = &iov[0], .msg_iovlen = 1}},
			      {.msg_hdr = {.msg_iov = &iov[1], .msg_iovlen = 1}}};

	return sendmmsg(fd, m, 2, 0) == 2 ? (ssize_t)m[0].msg_len + m[1].msg_len : -1;
}

static ssize_t by_dprintf(int fd)
{
	return dprintf(fd, "%.*s", LENGTH, bytes);
}

static ssize_t by_sendfile(int fd)
{
	int file = memfd_create("test", MFD_CLOEXEC);
	off_t at = 0;
	ssize_t n;

	assert_int_equal(write(file, bytes, LENGTH), LENGTH);
	n = sendfile(fd, file, &at, LENGTH);
	assert_int_equal(at, n);
	close(file);
	return n;
}

static ssize_t by_splice(int fd)
{
	int ends[2];
	ssize_t n;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], bytes, LENGTH), LENGTH);
	n = splice(ends[0], NULL, fd, NULL, LENGTH, 0);
	close(ends[0]);
	close(ends[1]);
	return n;
}

static ssize_t by_read(int fd, char *to, size_t room)
{
	return read(fd, to, room);
}

static ssize_t by_readv(int fd, char *to, size_t room)
{
	struct iovec iov[] = {{to, 1}, {to + 1, room - 1}};

	return readv(fd, iov, room > 1 ? 2 : 1);
}

static ssize_t by_recv(int fd, char *to, size_t room)
{
	char first;

	assert_int_equal(recv(fd, &first, 1, MSG_PEEK), 1);
	assert_int_equal(first, bytes[to - got]);
	return recv(fd, to, room, 0);
}

static ssize_t by_recvfrom(int fd, char *to, size_t room)
{
	struct sockaddr_in from;
	socklen_t size = sizeof(from);
	ssize_t n = recvfrom(fd, to, room, 0, (struct sockaddr *)&from, &size);

	assert_int_equal(size, 0);
	return n;
}

static ssize_t by_recvmsg(int fd, char *to, size_t room)
{
	return recvmsg(fd, &(struct msghdr){.msg_iov = &(struct iovec){to, room}, .msg_iovlen = 1}, 0);
}

static ssize_t by_recvmmsg(int fd, char *to, size_t room)
{
	struct iovec iov = {to, room};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

	return recvmmsg(fd, &m, 1, 0, NULL) == 1 ? (ssize_t)m.msg_len : -1;
}

static void what_any_call_sends_any_call_receives(void **state)
{
	static ssize_t (*const senders[])(int) = {by_write,    by_writev,  by_send,	by_sendto, by_sendmsg,
						  by_sendmmsg, by_dprintf, by_sendfile, by_splice};
	static ssize_t (*const receivers[])(int, char *, size_t) = {by_read,	 by_readv,   by_recv,
								    by_recvfrom, by_recvmsg, by_recvmmsg};
	int end[2];

	open_pair(end);
	for (size_t s = 0; s < ARRAY_SIZE(senders); s++)
		for (size_t r = 0; r < ARRAY_SIZE(receivers); r++) {
			memset(got, 0, sizeof(got));
			assert_int_equal(senders[s](end[s % 2]), LENGTH);
			for (size_t done = 0; done < LENGTH;) {
				ssize_t n = receivers[r](end[!(s % 2)], got + done, LENGTH - done);

				assert_in_range(n, 1, LENGTH - done);
				done += (size_t)n;
			}
			assert_memory_equal(got, bytes, LENGTH);
		}
	assert_int_equal(kind_of(end[0]), RDMA);
	close_pair(end);
}

/* ---- waiting ---- */

static int poll_for(int fd, int epoll)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0);
}

static int ppoll_for(int fd, int epoll)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return ppoll(&p, 1, &(struct timespec){0}, NULL);
}

static int select_for(int fd, int epoll)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &(struct timeval){0});
}

static int epoll_for(int fd, int epoll)
{
	struct epoll_event e[2];
	int n = epoll_wait(epoll, e, 2, 0);

	assert_true(n < 1 || e[0].data.fd == fd);
	return n;
}

static int poll_instance(int fd, int epoll)
{
	return poll_for(epoll, -1);
}

static int pending(int fd, int epoll)
{
	int n = -1;

	assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
	return n;
}

static void each_way_to_wait_sees_bytes_until_they_are_read(void **state)
{
	static int (*const ways[])(int fd, int epoll) = {poll_for,  ppoll_for, select_for,
							 epoll_for, pending,   poll_instance};
	struct epoll_event e = {.events = EPOLLIN};
	int end[2], epoll = epoll_create1(0);
	char byte;

	open_pair(end);
	e.data.fd = end[1];
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, end[1], &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		assert_int_equal(ways[i](end[1], epoll), 0);
		assert_int_equal(write(end[0], "x", 1), 1);
		assert_int_equal(poll(&(struct pollfd){.fd = end[1], .events = POLLIN}, 1, -1), 1);
		assert_int_equal(ways[i](end[1], epoll), 1);
		assert_int_equal(read(end[1], &byte, 1), 1);
		assert_int_equal(ways[i](end[1], epoll), 0);
	}
	close(epoll);
	close_pair(end);
}

/* ---- errors ---- */

static void a_connection_refuses_what_tcp_refuses(void **state)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	off64_t at = 0;
	char byte;
	int end[2], ends[2];

	open_pair(end);
	assert_int_equal(pipe(ends), 0);
#define FAILS(call, wanted)                      \
	do {                                     \
		assert_int_equal(call, -1);      \
		assert_int_equal(errno, wanted); \
	} while (0)
	FAILS(bind(end[0], (struct sockaddr *)&any, sizeof(any)), EINVAL);
	FAILS(listen(end[0], 1), EINVAL);
	FAILS(splice(end[0], &at, ends[1], NULL, 1, 0), ESPIPE);
	FAILS(setsockopt(end[0], SOL_SOCKET, SO_ZEROCOPY, &(int){1}, sizeof(int)), EOPNOTSUPP);
	FAILS(recv(end[0], &byte, 1, MSG_DONTWAIT), EAGAIN);
	assert_int_equal(ioctl(end[0], FIONBIO, &(int){1}), 0);
	FAILS(read(end[0], &byte, 1), EAGAIN);
	assert_int_equal(ioctl(end[0], FIONBIO, &(int){0}), 0);
	assert_int_equal(fcntl(end[0], F_SETFL, O_NONBLOCK), 0);
	FAILS(read(end[0], &byte, 1), EAGAIN);
	close(ends[0]);
	close(ends[1]);
	close_pair(end);
}

static volatile sig_atomic_t pipes;

static void count_pipe(int number)
{
	pipes++;
}

static void a_connection_that_is_over_says_so(void **state)
{
	char byte;
	int end[2];

	signal(SIGPIPE, count_pipe);
	pipes = 0;
	open_pair(end);
	assert_int_equal(shutdown(end[0], SHUT_WR), 0);
	assert_int_equal(read(end[1], &byte, 1), 0);
	FAILS(send(end[0], "x", 1, MSG_NOSIGNAL), EPIPE);
	assert_int_equal(pipes, 0);
	FAILS(write(end[0], "x", 1), EPIPE);
	assert_int_equal(pipes, 1);
	assert_int_equal(write(end[1], "x", 1), 1); /* the other direction */
	assert_int_equal(read(end[0], &byte, 1), 1);
	signal(SIGPIPE, SIG_DFL);
	close_pair(end);
}

/* ---- TCP, and descriptors of the kernel's ---- */

static void expect_bytes(int from, int to)
{
	char byte = 0;

	assert_int_equal(write(from, "y", 1), 1);
	assert_int_equal(read(to, &byte, 1), 1);
	assert_int_equal(byte, 'y');
}

static void a_listener_that_knows_no_rdma_gets_tcp(void **state)
{
	struct sockaddr_in name;
	int listener, fd, accepted;

	inside++; /* as liburoce.so.1's own calls: not ours */
	listener = listener_at(&name);
	inside--;
	assert_int_equal(kind_of(listener), PLAIN);
	fd = connect_to(&name);
	assert_int_equal(kind_of(fd), PLAIN);
	accepted = accept(listener, NULL, NULL);
	expect_bytes(fd, accepted);
	expect_bytes(accepted, fd);
	close(accepted);
	close(fd);
	close(listener);
}

static void a_copy_of_a_descriptor_is_the_same_connection(void **state)
{
	char byte;
	int end[2], copy;

	open_pair(end);
	copy = dup(end[1]);
	assert_int_equal(kind_of(copy), RDMA);
	assert_int_equal(close(end[1]), 0);
	expect_bytes(end[0], copy);
	expect_bytes(copy, end[0]);
	assert_int_equal(close(copy), 0);
	assert_int_equal(read(end[0], &byte, 1), 0);
	close(end[0]);
}

/* As for a program that is executed, whose C library knows nothing of rsockets. */
static void a_bridge_carries_the_connection_on(void **state)
{
	struct sockaddr_in before, after;
	socklen_t size = sizeof(before);
	char byte;
	int end[2];

	open_pair(end);
	assert_int_equal(write(end[0], "z", 1), 1); /* not lost: it comes first */
	assert_int_equal(getpeername(end[1], (struct sockaddr *)&before, &size), 0);
	bridge(end[1]);
	assert_int_equal(kind_of(end[1]), PLAIN);
	assert_true(bridge_is(end[1]));
	assert_int_equal(read(end[1], &byte, 1), 1);
	assert_int_equal(byte, 'z');
	expect_bytes(end[0], end[1]);
	expect_bytes(end[1], end[0]);
	size = sizeof(after);
	assert_int_equal(getpeername(end[1], (struct sockaddr *)&after, &size), 0);
	assert_memory_equal(&after, &before, sizeof(after));
	assert_int_equal(close(end[1]), 0);
	assert_int_equal(read(end[0], &byte, 1), 0);
	close(end[0]);
}

static void a_child_goes_on_with_a_connection(void **state)
{
	int end[2], status;
	pid_t child;

	open_pair(end);
	child = fork();
	if (child == 0)
		_exit(kind_of(end[1]) != INHERITED || write(end[1], "c", 1) != 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(read(end[0], got, 1), 1);
	assert_int_equal(got[0], 'c');
	expect_bytes(end[0], end[1]);
	close(end[0]);
	close(end[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_tcp_sockets_may_go_by_rdma),
		cmocka_unit_test(calls_change_what_a_descriptor_is),
		cmocka_unit_test(what_any_call_sends_any_call_receives),
		cmocka_unit_test(each_way_to_wait_sees_bytes_until_they_are_read),
		cmocka_unit_test(a_connection_refuses_what_tcp_refuses),
		cmocka_unit_test(a_connection_that_is_over_says_so),
		cmocka_unit_test(a_listener_that_knows_no_rdma_gets_tcp),
		cmocka_unit_test(a_copy_of_a_descriptor_is_the_same_connection),
		cmocka_unit_test(a_bridge_carries_the_connection_on),
		cmocka_unit_test(a_child_goes_on_with_a_connection),
	};

	netns_enter();
	for (int i = 0; i < LENGTH; i++)
		bytes[i] = (char)('!' + i * 7 % 90 + (i >> 8) % 4);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
