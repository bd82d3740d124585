/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram rsockets, both ends in one process. */
#include "verbs/fixture.h"
#include "loop/netns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#include "rsocket/wire.h"

enum {
	MOST = 2048,
	ROUNDS = 200,
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage room;
};

/* Bound to the loopback address and a port of its own. */
static int make(int domain, union address *name)
{
	union address own = {.any.sa_family = (sa_family_t)domain};
	socklen_t size = domain == AF_INET ? sizeof(own.v4) : sizeof(own.v6);
	int fd = rsocket(domain, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	if (domain == AF_INET)
		own.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		own.v6.sin6_addr = in6addr_loopback;
	assert_int_equal(rbind(fd, &own.any, size), 0);
	size = sizeof(*name);
	memset(name, 0, sizeof(*name));
	assert_int_equal(rgetsockname(fd, &name->any, &size), 0);
	assert_int_not_equal(name->v4.sin_port, 0);
	return fd;
}

static socklen_t size_of(const union address *name)
{
	return name->any.sa_family == AF_INET ? sizeof(name->v4) : sizeof(name->v6);
}

static void deliver(int from, const union address *from_name, int to, const union address *to_name, size_t length)
{
	uint8_t out[MOST], in[MOST + 1];
	union address said = {0};
	socklen_t size = sizeof(said);

	for (size_t i = 0; i < length; i++)
		out[i] = (uint8_t)(i * 7 + length);
	assert_int_equal(rsendto(from, out, length, 0, &to_name->any, size_of(to_name)), length);
	assert_int_equal(rrecvfrom(to, in, sizeof(in), 0, &said.any, &size), length);
	assert_memory_equal(in, out, length);
	assert_int_equal(size, size_of(from_name));
	assert_memory_equal(&said, from_name, size);
}

static void there_and_back(int domain)
{
	static const size_t lengths[] = {0, 1, 64, 1000, 1500, MOST};
	union address a_name, b_name;
	int a = make(domain, &a_name), b = make(domain, &b_name);

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
			deliver(a, &a_name, b, &b_name, lengths[i]);
			deliver(b, &b_name, a, &a_name, lengths[i]);
		}
	}
	assert_int_equal(rclose(a), 0);
	assert_int_equal(rclose(b), 0);
}

static void datagrams_go_there_and_back(void **state)
{
	there_and_back(AF_INET);
}

static void datagrams_go_by_IPv6(void **state)
{
	if (netns_has_ipv6())
		there_and_back(AF_INET6);
}

static void calls_that_make_no_sense_fail(void **state)
{
	union address name;
	uint8_t data[MOST + 1] = {0};
	int fd = make(AF_INET, &name), none;

	errno = 0;
	assert_int_equal(rsend(fd, data, 1, 0), -1);
	assert_int_equal(errno, EDESTADDRREQ);
	assert_int_equal(rsendto(fd, data, sizeof(data), 0, &name.any, size_of(&name)), -1);
	assert_int_equal(errno, EMSGSIZE);
	assert_int_equal(rlisten(fd, 1), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	none = raccept(fd, NULL, NULL);
	assert_int_equal(none, -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(rrecv(fd, data, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rrecv(fd, data, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
}

static void only_the_peer_is_heard(void **state)
{
	union address a_name, b_name, c_name;
	int a = make(AF_INET, &a_name), b = make(AF_INET, &b_name), c = make(AF_INET, &c_name);
	char data[8];

	deliver(c, &c_name, a, &a_name, 5); /* c knows a's QP now, and a kernel's socket cannot hold it back */
	assert_int_equal(rrecv(c, data, 1, MSG_DONTWAIT), -1);
	assert_int_equal(rconnect(a, &b_name.any, size_of(&b_name)), 0);
	assert_int_equal(rsendto(c, "foreign", 7, 0, &a_name.any, size_of(&a_name)), 7);
	assert_int_equal(rsendto(b, "friend", 6, 0, &a_name.any, size_of(&a_name)), 6);
	assert_int_equal(rrecv(a, data, sizeof(data), MSG_PEEK), 6);
	assert_int_equal(rrecv(a, data, sizeof(data), 0), 6);
	assert_memory_equal(data, "friend", 6);
	assert_int_equal(rrecv(a, data, sizeof(data), MSG_DONTWAIT), -1);
	assert_int_equal(rsend(a, "answer", 6, 0), 6);
	assert_int_equal(rrecv(b, data, 3, 0), 3);
	assert_memory_equal(data, "ans", 3);
	rclose(a);
	rclose(b);
	rclose(c);
}

static void poll_and_select_tell(void **state)
{
	union address a_name, b_name;
	int a = make(AF_INET, &a_name), b = make(AF_INET, &b_name), junk = socket(AF_INET, SOCK_DGRAM, 0);
	struct pollfd p = {.fd = a, .events = POLLIN};
	struct timeval now = {0};
	char data[8];
	fd_set in;

	assert_int_equal(rpoll(&p, 1, 0), 0);
	assert_int_equal(sendto(junk, "junk", 4, 0, &a_name.any, sizeof(a_name.v4)), 4);
	assert_int_equal(rpoll(&p, 1, 0), 0); /* that is not ours */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rsendto(b, "x", 1, 0, &a_name.any, size_of(&a_name)), 1);
		p.events = POLLIN;
		assert_int_equal(rpoll(&p, 1, -1), 1);
		assert_int_equal(p.revents, POLLIN);
		FD_ZERO(&in);
		FD_SET(a, &in);
		assert_int_equal(rselect(a + 1, &in, NULL, NULL, NULL), 1);
		assert_int_equal(rrecv(a, data, sizeof(data), 0), 1);
		FD_SET(a, &in);
		assert_int_equal(rselect(a + 1, &in, NULL, NULL, &now), 0);
		p.events = POLLIN | POLLOUT;
		assert_int_equal(rpoll(&p, 1, -1), 1);
		assert_int_equal(p.revents, POLLOUT);
	}
	close(junk);
	rclose(a);
	rclose(b);
}

/* A peer that we play ourselves: what it says over UDP, and what it hears. */
static void a_number_is_told_by_UDP(void **state)
{
	struct {
		struct rs_udp_header header;
		char data[8];
	} m;
	union address name, own = {.v4 = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}}};
	int fd = make(AF_INET, &name), peer = socket(AF_INET, SOCK_DGRAM, 0);
	struct rs_udp_header heard = {0}, good = {.tag = to_be32(RS_UDP_TAG),
						  .version = 4,
						  .op = RS_OP_DATA,
						  .length = RS_UDP_V4_BYTES,
						  .qpn = to_be32(77)};
	struct rs_udp_header bad[] = {good, good, good, good};
	char data[16];

	assert_int_equal(bind(peer, &own.any, sizeof(own.v4)), 0);
	assert_int_equal(connect(peer, &name.any, sizeof(name.v4)), 0);
	bad[0].tag = to_be32(1);
	bad[1].version = 6;
	bad[2].length = 200;
	bad[3].op = 3;
	for (int i = 0; i < 4; i++)
		assert_int_equal(send(peer, &bad[i], RS_UDP_V4_BYTES, 0), RS_UDP_V4_BYTES);
	assert_int_equal(send(peer, &good, 7, 0), 7);
	assert_int_equal(rrecv(fd, data, sizeof(data), MSG_DONTWAIT), -1);
	assert_int_equal(recv(peer, &heard, sizeof(heard), MSG_DONTWAIT), -1);

	memcpy(&m, &good, RS_UDP_V4_BYTES);
	memcpy((char *)&m + RS_UDP_V4_BYTES, "hello", 5);
	assert_int_equal(send(peer, &m, RS_UDP_V4_BYTES + 5, 0), RS_UDP_V4_BYTES + 5);
	assert_int_equal(rrecv(fd, data, sizeof(data), 0), 5);
	assert_memory_equal(data, "hello", 5);
	assert_int_equal(recv(peer, &heard, sizeof(heard), 0), RS_UDP_V4_BYTES);
	assert_int_equal(from_be32(heard.tag), RS_UDP_TAG);
	assert_int_equal(heard.version, 4);
	assert_int_equal(heard.op, RS_OP_CONTROL);
	assert_int_equal(heard.length, RS_UDP_V4_BYTES);
	assert_int_not_equal(from_be32(heard.qpn), 0);
	assert_memory_equal(heard.address, &name.v4.sin_addr, 4);
	close(peer);
	rclose(fd);
}

static void *echo(void *arg)
{
	int fd = *(int *)arg;
	union address from;

	for (int i = 0; i < ROUNDS; i++) {
		socklen_t size = sizeof(from);
		char data[MOST];
		ssize_t n = rrecvfrom(fd, data, sizeof(data), 0, &from.any, &size);

		if (n < 0 || rsendto(fd, data, (size_t)n, 0, &from.any, size) != n)
			return "it failed";
	}
	return NULL;
}

static void sleepers_are_woken(void **state)
{
	union address a_name, b_name;
	int a = make(AF_INET, &a_name), b = make(AF_INET, &b_name);
	void *result;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, echo, &a), 0);
	assert_int_equal(rconnect(b, &a_name.any, size_of(&a_name)), 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct pollfd p = {.fd = b, .events = POLLIN};
		int got = -1;

		assert_int_equal(rsend(b, &i, sizeof(i), 0), sizeof(i));
		if (i % 2)
			assert_int_equal(rpoll(&p, 1, -1), 1);
		assert_int_equal(rrecv(b, &got, sizeof(got), 0), sizeof(got));
		assert_int_equal(got, i);
	}
	pthread_join(t, &result);
	assert_null(result);
	rclose(a);
	rclose(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagrams_go_there_and_back),
		cmocka_unit_test(datagrams_go_by_IPv6),
		cmocka_unit_test(calls_that_make_no_sense_fail),
		cmocka_unit_test(only_the_peer_is_heard),
		cmocka_unit_test(poll_and_select_tell),
		cmocka_unit_test(a_number_is_told_by_UDP),
		cmocka_unit_test(sleepers_are_woken),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
