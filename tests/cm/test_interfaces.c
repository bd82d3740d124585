/* What ids do when their interfaces are not the loopback: an address of the loopback without a device there.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "loop/netns.h"

#define OWN "192.0.2.1"

static struct rdma_event_channel *channel;
static bool has_veth;

static struct sockaddr_in address(const char *text, __be16 port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = port};

	assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
	return a;
}

static void expect_address(const struct sockaddr *a, const char *text)
{
	char got[INET_ADDRSTRLEN];

	assert_int_equal(a->sa_family, AF_INET);
	inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, got, sizeof(got));
	assert_string_equal(got, text);
}

static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_get_cm_event(channel, &e), 0);
	if (e->event != type)
		fail_msg("%s (%d) instead of %s", rdma_event_str(e->event), e->status, rdma_event_str(type));
	id = e->id;
	rdma_ack_cm_event(e);
	return id;
}

static struct rdma_cm_id *make_id(void)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

static struct rdma_cm_id *listen_at(const char *text)
{
	struct rdma_cm_id *id = make_id();
	struct sockaddr_in at = address(text, 0);

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	assert_int_equal(rdma_listen(id, 1), 0);
	return id;
}

/* A request, which need not be answered: that it arrives is the proof. */
static void request(const struct rdma_cm_id *listener, struct rdma_cm_id *client, const char *to)
{
	struct sockaddr_in there = address(to, rdma_get_src_port((struct rdma_cm_id *)listener));
	struct rdma_conn_param p = {.qp_num = 17};
	struct rdma_cm_id *server;

	assert_int_equal(rdma_resolve_addr(client, NULL, (struct sockaddr *)&there, 1000), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_RESOLVED), client);
	expect_address(rdma_get_local_addr(client), OWN);
	expect_address(rdma_get_peer_addr(client), OWN);
	assert_int_equal(rdma_resolve_route(client, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_connect(client, &p), 0);
	server = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	expect_address(rdma_get_local_addr(server), OWN);
	assert_int_equal(rdma_reject(server, NULL, 0), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_REJECTED), client);
	assert_int_equal(rdma_destroy_id(server), 0);
}

/* libfabric's servers bind there to find their devices. */
static void the_loopback_is_as_good_as_any(void **state)
{
	struct rdma_cm_id *listener, *client;

	if (!has_veth)
		return;
	listener = listen_at("127.0.0.1");
	assert_null(listener->verbs);
	expect_address(rdma_get_local_addr(listener), "127.0.0.1");
	for (const char *const *to = (const char *[]){"127.0.0.1", OWN, "0.0.0.0", NULL}; *to; to++) {
		client = make_id();
		request(listener, client, *to);
		assert_int_equal(rdma_destroy_id(client), 0);
	}
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void from_where_it_is_bound(void **state)
{
	struct sockaddr_in own = address(OWN, 0);
	struct rdma_cm_id *listener, *client;

	if (!has_veth)
		return;
	listener = listen_at(OWN);
	client = make_id();
	assert_int_equal(rdma_bind_addr(client, (struct sockaddr *)&own), 0);
	request(listener, client, "127.0.0.1");
	assert_int_equal(rdma_destroy_id(client), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void others_are_not(void **state)
{
	struct sockaddr_in strange = address("192.0.2.99", 0);
	struct rdma_cm_id *id;

	if (!has_veth)
		return;
	id = make_id();
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&strange), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static int open_channel(void **state)
{
	if (!has_veth)
		print_message("# no veth here: nothing to see\n");
	return !(channel = rdma_create_event_channel());
}

static int close_channel(void **state)
{
	rdma_destroy_event_channel(channel);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_loopback_is_as_good_as_any),
		cmocka_unit_test(from_where_it_is_bound),
		cmocka_unit_test(others_are_not),
	};

	netns_enter();
	setenv("UROCE_DEVICES", "cm0", 1);
	has_veth = !system("ip link add cm0 type veth peer name cm1 && ip addr add " OWN "/24 dev cm0 && "
			   "ip link set cm0 up && ip link set cm1 up");
	return cmocka_run_group_tests(tests, open_channel, close_channel);
}
