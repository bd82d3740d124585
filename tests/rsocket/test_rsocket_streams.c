/* SPDX-License-Identifier: BSD-2-Clause */
/* Stream rsockets: their ends, their calls, and peers that are killed. */
#include "verbs/fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	MANY = 300001, /* bytes: more than a ring holds */
};

/* Listens at the loopback address, at a port of its own. */
static int make_listener(struct sockaddr_in *name)
{
	socklen_t size = sizeof(*name);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	*name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd < 0 || rbind(fd, (struct sockaddr *)name, sizeof(*name)) || rlisten(fd, 8) ||
	    rgetsockname(fd, (struct sockaddr *)name, &size))
		return -1;
	return fd;
}

static int connect_to(const struct sockaddr_in *name)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(rconnect(fd, (const struct sockaddr *)name, sizeof(*name)), 0);
	return fd;
}

static void make_pair(int end[2])
{
	struct sockaddr_in name;
	int listener = make_listener(&name);

	assert_true(listener >= 0);
	end[0] = connect_to(&name);
	end[1] = raccept(listener, NULL, NULL);
	assert_true(end[1] >= 0);
	rclose(listener);
}

static void close_pair(const int end[2])
{
	rclose(end[0]);
	rclose(end[1]);
}

static void one_way_ends_and_the_other_goes_on(void **state)
{
	char in[8];
	int end[2];

	make_pair(end);
	assert_int_equal(rsend(end[0], "last", 4, 0), 4);
	assert_int_equal(rshutdown(end[0], SHUT_WR), 0);
	assert_int_equal(rrecv(end[1], in, sizeof(in), MSG_WAITALL), 4);
	assert_int_equal(rrecv(end[1], in, sizeof(in), 0), 0);
	assert_int_equal(rsend(end[0], "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(rsend(end[1], "answer", 6, 0), 6);
	assert_int_equal(rrecv(end[0], in, 6, MSG_WAITALL), 6);
	assert_memory_equal(in, "answer", 6);
	assert_int_equal(rshutdown(end[1], SHUT_WR), 0);
	assert_int_equal(rrecv(end[0], in, sizeof(in), 0), 0);
	close_pair(end);
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + i / 253);
}

static void *send_and_close(void *fd)
{
	uint8_t *bytes = malloc(MANY);

	for (size_t i = 0; i < MANY; i++)
		bytes[i] = pattern(i);
	assert_int_equal(rsend(*(int *)fd, bytes, MANY, 0), MANY);
	assert_int_equal(rclose(*(int *)fd), 0);
	free(bytes);
	return NULL;
}

static void what_is_sent_before_the_end_arrives(void **state)
{
	uint8_t in[5000];
	size_t got = 0;
	pthread_t thread;
	ssize_t n;
	int end[2];

	make_pair(end);
	assert_int_equal(pthread_create(&thread, NULL, send_and_close, &end[0]), 0);
	while ((n = rrecv(end[1], in, sizeof(in), 0)) > 0)
		for (ssize_t i = 0; i < n; i++, got++)
			if (in[i] != pattern(got))
				fail_msg("byte %zu is %u, not %u", got, in[i], pattern(got));
	assert_int_equal(n, 0);
	assert_int_equal(got, MANY);
	pthread_join(thread, NULL);
	rclose(end[1]);
}

static void what_is_peeked_at_stays(void **state)
{
	char in[8] = "";
	int end[2];

	make_pair(end);
	assert_int_equal(rsend(end[0], "peek", 4, 0), 4);
	assert_int_equal(rrecv(end[1], in, 1, MSG_PEEK), 1);
	assert_int_equal(rrecv(end[1], in, 4, MSG_WAITALL), 4);
	assert_memory_equal(in, "peek", 4);
	assert_int_equal(rrecv(end[1], in, 4, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close_pair(end);
}

/* It does not stay until somebody has read what it sent; who reads finds the end of it, wherever that is. */
static void who_does_not_linger_is_gone(void **state)
{
	const struct linger no = {.l_onoff = 1};
	char bytes[5000] = "";
	ssize_t sent = 0, got = 0, n;
	int end[2];

	make_pair(end);
	assert_int_equal(rfcntl(end[0], F_SETFL, O_NONBLOCK), 0);
	while ((n = rsend(end[0], bytes, sizeof(bytes), 0)) > 0)
		sent += n;
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(rsetsockopt(end[0], SOL_SOCKET, SO_LINGER, &no, sizeof(no)), 0);
	assert_int_equal(rclose(end[0]), 0);
	while ((n = rrecv(end[1], bytes, sizeof(bytes), 0)) > 0)
		got += n;
	assert_true(got <= sent);
	assert_int_equal(rsend(end[1], bytes, 1, MSG_NOSIGNAL), -1);
	rclose(end[1]);
}

static int error_of(int fd)
{
	socklen_t size = sizeof(int);
	int error = -1;

	assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
	return error;
}

/* Its SO_ERROR when it is settled. */
static int connect_without_waiting(const struct sockaddr_in *to, int *fd)
{
	struct pollfd p = {.events = POLLOUT};

	*fd = p.fd = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_true(p.fd >= 0);
	assert_int_equal(rfcntl(p.fd, F_SETFL, O_NONBLOCK), 0);
	if (!rconnect(p.fd, (const struct sockaddr *)to, sizeof(*to)))
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	assert_int_equal(rpoll(&p, 1, -1), 1);
	return error_of(p.fd);
}

static void who_does_not_wait_learns_how_it_went(void **state)
{
	struct sockaddr_in name;
	int listener = make_listener(&name), client, server;

	assert_true(listener >= 0);
	assert_int_equal(connect_without_waiting(&name, &client), 0);
	server = raccept(listener, NULL, NULL);
	assert_true(server >= 0);
	rclose(client);
	rclose(server);
	rclose(listener);
	assert_int_equal(connect_without_waiting(&name, &client), ECONNREFUSED);
	rclose(client);
}

static void poll_and_select_take_ordinary_descriptors_too(void **state)
{
	struct timeval none = {0};
	struct pollfd p[2];
	fd_set in;
	int end[2], line[2];
	char byte;

	make_pair(end);
	assert_int_equal(pipe(line), 0);
	p[0] = (struct pollfd){.fd = end[1], .events = POLLIN};
	p[1] = (struct pollfd){.fd = line[0], .events = POLLIN};
	assert_int_equal(rpoll(p, 2, 0), 0);
	assert_int_equal(write(line[1], "x", 1), 1);
	assert_int_equal(rpoll(p, 2, -1), 1);
	assert_int_equal(p[0].revents, 0);
	assert_int_equal(p[1].revents, POLLIN);
	assert_int_equal(read(line[0], &byte, 1), 1);
	assert_int_equal(rsend(end[0], "y", 1, 0), 1);
	assert_int_equal(rpoll(p, 2, -1), 1);
	assert_int_equal(p[0].revents, POLLIN);
	assert_int_equal(p[1].revents, 0);
	FD_ZERO(&in);
	FD_SET(end[1], &in);
	FD_SET(line[0], &in);
	assert_int_equal(rselect((end[1] > line[0] ? end[1] : line[0]) + 1, &in, NULL, NULL, &none), 1);
	assert_true(FD_ISSET(end[1], &in));
	assert_false(FD_ISSET(line[0], &in));
	close_pair(end);
	close(line[0]);
	close(line[1]);
}

/* A pair whose ends have an iomap each. */
static void make_mappable_pair(int end[2])
{
	struct sockaddr_in name;
	int listener = make_listener(&name), entries = 1;

	assert_true(listener >= 0);
	assert_int_equal(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof(entries)), 0);
	end[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rsetsockopt(end[0], SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof(entries)), 0);
	assert_int_equal(rconnect(end[0], (struct sockaddr *)&name, sizeof(name)), 0);
	end[1] = raccept(listener, NULL, NULL);
	rclose(listener);
}

static void buffers_that_are_mapped_can_be_written_to(void **state)
{
	static char buffer[64];
	int end[2];
	char byte;

	make_mappable_pair(end);
	assert_int_equal(riomap(end[1], buffer, sizeof(buffer), PROT_WRITE, 0, 100), 100);
	assert_int_equal(rsend(end[1], "m", 1, 0), 1); /* tells of it */
	assert_int_equal(rrecv(end[0], &byte, 1, 0), 1);
	assert_int_equal(riowrite(end[0], "written", 7, 110, 0), 7);
	assert_int_equal(rsend(end[0], "w", 1, 0), 1);
	assert_int_equal(rrecv(end[1], &byte, 1, 0), 1);
	assert_memory_equal(buffer + 10, "written", 7);
	assert_int_equal(riounmap(end[1], buffer, sizeof(buffer)), 0);
	close_pair(end);
}

/* A call that does not wait, and has a new iomap to tell of, notices that the peer has made room. */
static void what_is_mapped_while_there_is_no_room_is_told(void **state)
{
	static char buffer[64], bytes[MANY];
	ssize_t sent = 0, n;
	int end[2], tries = 0;

	make_mappable_pair(end);
	while ((n = rsend(end[0], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		sent += n;
	assert_int_equal(riomap(end[0], buffer, sizeof(buffer), PROT_WRITE, 0, 0), 0);
	while (sent && (n = rrecv(end[1], bytes, sizeof(bytes), 0)) > 0)
		sent -= n;
	while ((n = rsend(end[0], "x", 1, MSG_DONTWAIT)) < 0 && tries++ < 1000000)
		sched_yield();
	assert_int_equal(n, 1);
	assert_int_equal(riounmap(end[0], buffer, sizeof(buffer)), 0);
	close_pair(end);
}

/* ---- peers that are killed ---- */

/* Processes that accept one connection, send a byte, and then do nothing. Made before there are threads. */
struct idler {
	pid_t pid;
	struct sockaddr_in name;
} idler[2];

static void idle(int to)
{
	struct sockaddr_in name;
	int listener, fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	listener = make_listener(&name);
	if (listener < 0 || write(to, &name, sizeof(name)) != sizeof(name))
		_exit(1);
	fd = raccept(listener, NULL, NULL);
	if (fd < 0 || rsend(fd, "!", 1, 0) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void start(pid_t *pid, struct sockaddr_in *name, void (*run)(int to))
{
	int line[2];

	if (pipe(line))
		abort();
	*pid = fork();
	if (*pid == 0)
		run(line[1]);
	close(line[1]);
	if (read(line[0], name, sizeof(*name)) != sizeof(*name))
		abort();
	close(line[0]);
}

/* ---- a peer that leaves its processor to nobody ---- */

enum {
	CALLS = 20,
};

/* A real-time process that asks for connections without a pause and answers a byte on each, on one processor. Made
 * before there are threads; to be killed. */
struct spinner {
	pid_t pid;
	struct sockaddr_in name;
} spinner;

/* The last of several that it may use. 0 or -1. */
static int keep_to_a_processor(void)
{
	cpu_set_t all, one;
	int last = CPU_SETSIZE - 1;

	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		return -1;
	while (!CPU_ISSET(last, &all))
		last--;
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	return sched_setaffinity(0, sizeof(one), &one);
}

static void spin(int to)
{
	const struct sched_param lowest = {.sched_priority = 1};
	struct sockaddr_in name = {0};
	int listener;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (keep_to_a_processor() || sched_setscheduler(0, SCHED_FIFO, &lowest)) {
		(void)!write(to, &name, sizeof(name)); /* port 0: we may not */
		_exit(0);
	}
	listener = make_listener(&name);
	if (listener < 0 || rfcntl(listener, F_SETFL, O_NONBLOCK) || write(to, &name, sizeof(name)) != sizeof(name))
		_exit(1);
	for (int i = 0; i < CALLS; i++) {
		int fd;

		while ((fd = raccept(listener, NULL, NULL)) < 0)
			;
		while (rrecv(fd, &byte, 1, MSG_DONTWAIT) < 0)
			;
		rsend(fd, &byte, 1, 0);
		while (rrecv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
			;
		rclose(fd);
	}
	_exit(0);
}

static void who_leaves_its_processor_to_nobody_is_served(void **state)
{
	char byte = 'x';
	int status;

	if (!spinner.name.sin_port) {
		print_message("# no second processor, or no real-time threads here\n");
		return;
	}
	for (int i = 0; i < CALLS; i++) {
		int fd = connect_to(&spinner.name);

		assert_int_equal(rsend(fd, &byte, 1, 0), 1);
		assert_int_equal(rrecv(fd, &byte, 1, 0), 1);
		rclose(fd);
	}
	waitpid(spinner.pid, &status, 0);
	assert_int_equal(status, 0);
}

static void *kill_it(void *idler)
{
	kill(((struct idler *)idler)->pid, SIGKILL);
	waitpid(((struct idler *)idler)->pid, NULL, 0);
	return NULL;
}

static int connect_to_idler(struct idler *idler)
{
	int fd = connect_to(&idler->name);
	char byte;

	assert_int_equal(rrecv(fd, &byte, 1, 0), 1);
	return fd;
}

static void who_reads_from_a_killed_peer_is_told(void **state)
{
	int fd = connect_to_idler(&idler[0]);
	pthread_t thread;
	char byte;

	assert_int_equal(pthread_create(&thread, NULL, kill_it, &idler[0]), 0);
	assert_int_equal(rrecv(fd, &byte, 1, 0), -1); /* it may have sent more, so this is no end in good order */
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(rrecv(fd, &byte, 1, 0), 0); /* an error is told once */
	pthread_join(thread, NULL);
	rclose(fd);
}

static void who_writes_to_a_killed_peer_is_told(void **state)
{
	static char bytes[MANY];
	int fd = connect_to_idler(&idler[1]);
	pthread_t thread;
	ssize_t n;

	assert_int_equal(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	while ((n = rsend(fd, bytes, sizeof(bytes), MSG_NOSIGNAL)) > 0)
		; /* until it holds no more */
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(rfcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, kill_it, &idler[1]), 0);
	while ((n = rsend(fd, bytes, sizeof(bytes), MSG_NOSIGNAL)) > 0)
		;
	assert_int_equal(n, -1);
	assert_int_not_equal(errno, EAGAIN);
	pthread_join(thread, NULL);
	rclose(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_way_ends_and_the_other_goes_on),
		cmocka_unit_test(what_is_sent_before_the_end_arrives),
		cmocka_unit_test(what_is_peeked_at_stays),
		cmocka_unit_test(who_does_not_linger_is_gone),
		cmocka_unit_test(who_does_not_wait_learns_how_it_went),
		cmocka_unit_test(poll_and_select_take_ordinary_descriptors_too),
		cmocka_unit_test(buffers_that_are_mapped_can_be_written_to),
		cmocka_unit_test(what_is_mapped_while_there_is_no_room_is_told),
		cmocka_unit_test(who_reads_from_a_killed_peer_is_told),
		cmocka_unit_test(who_leaves_its_processor_to_nobody_is_served),
		cmocka_unit_test(who_writes_to_a_killed_peer_is_told),
	};

	enter_namespace();
	for (size_t i = 0; i < sizeof(idler) / sizeof(*idler); i++)
		start(&idler[i].pid, &idler[i].name, idle);
	start(&spinner.pid, &spinner.name, spin);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
