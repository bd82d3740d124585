/* SPDX-License-Identifier: BSD-2-Clause */
/* What ids do when their interfaces are not the loopback: an address of the loopback without a device there, and
 * interfaces that change and go. */
#include <arpa/inet.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

	assert_int_equal(rdma_resolve_addr(client, NULL, (struct sockaddr *)&there, 60000), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_RESOLVED), client);
	expect_address(rdma_get_local_addr(client), OWN);
	expect_address(rdma_get_peer_addr(client), OWN);
	assert_int_equal(rdma_resolve_route(client, 60000), 0);
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
	setenv("UROCE_LOOPBACK", "device", 1);
	listener = listen_at("127.0.0.1");
	assert_non_null(listener->verbs); /* the first, which clients will find */
	assert_non_null(listener->pd);
	assert_int_equal(rdma_create_qp(listener, NULL,
					&(struct ibv_qp_init_attr){.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC}),
			 -1);
	client = make_id();
	request(listener, client, "127.0.0.1");
	assert_int_equal(rdma_destroy_id(client), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	unsetenv("UROCE_LOOPBACK");
	listener = listen_at("127.0.0.1");
	assert_null(listener->verbs);
	expect_address(rdma_get_local_addr(listener), "127.0.0.1");
	assert_null(listener->verbs);
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

static bool shell(const char *command)
{
	return system(command) == 0;
}

/* The kernel's cma says so as well, and leaves the id bound. */
static void a_host_that_does_not_answer_is_no_address(void **state)
{
	struct sockaddr_in nobody = address("192.0.2.50", 7), own = address(OWN, 7);
	struct rdma_cm_event *e;
	struct rdma_cm_id *id, *other;

	if (!has_veth)
		return;
	id = make_id();
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, 100), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, 100), -1); /* it is at it */
	assert_int_equal(rdma_resolve_route(id, 100), -1);
	assert_int_equal(rdma_get_cm_event(channel, &e), 0);
	assert_int_equal(e->event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_ptr_equal(e->id, id);
	assert_int_equal(e->status, -ETIMEDOUT);
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&own, 100), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0); /* one that waits */
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, 100), -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(rdma_destroy_id(id), 0);

	id = make_id();
	other = make_id();
	for (struct rdma_cm_id **i = (struct rdma_cm_id *[]){id, other, NULL}; *i; i++)
		assert_int_equal(rdma_resolve_addr(*i, NULL, (struct sockaddr *)&nobody, INT32_MAX), 0);
	assert_int_equal(rdma_destroy_id(other), 0); /* of which nothing is heard any more */
	assert_true(shell("ip neigh replace 192.0.2.50 lladdr 02:00:00:00:00:50 dev cm0"));
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_RESOLVED), id);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static int bind_link_local(unsigned scope)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_scope_id = scope};
	struct rdma_cm_id *id = make_id();
	int error;

	assert_int_equal(inet_pton(AF_INET6, "fe80::77:1", &at.sin6_addr), 1);
	error = rdma_bind_addr(id, (struct sockaddr *)&at) ? errno : 0;
	assert_int_equal(rdma_destroy_id(id), 0);
	return error;
}

static void a_link_local_address_is_one_of_an_interface(void **state)
{
	if (!has_veth || !netns_has_ipv6())
		return;
	assert_true(shell("ip addr add fe80::77:1/64 dev cm0 nodad"));
	assert_int_equal(bind_link_local(if_nametoindex("cm0")), 0);
	assert_int_equal(bind_link_local(if_nametoindex("cm1")), ENODEV);
	assert_int_equal(bind_link_local(if_nametoindex("lo")), ENODEV);
	assert_int_equal(bind_link_local(9999), ENODEV);
	assert_int_equal(bind_link_local(0), EINVAL);
}

/* ---- interfaces change ---- */

static bool make_interface(void)
{
	return shell("ip link add cm0 type veth peer name cm1 && ip link set cm0 addrgenmode none && "
		     "ip addr add " OWN "/24 dev cm0 && ip link set cm0 up && ip link set cm1 up");
}

static struct rdma_cm_id *bind_at(const char *text)
{
	struct rdma_cm_id *id = make_id();
	struct sockaddr_in at = address(text, 0);

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	return id;
}

static void the_address_of_an_id_goes(void **state)
{
	struct rdma_cm_id *id, *other;

	if (!has_veth)
		return;
	assert_true(shell("ip addr add 192.0.2.2/32 dev cm0"));
	id = bind_at(OWN);
	other = bind_at("192.0.2.2");
	assert_true(shell("ip addr del 192.0.2.2/32 dev cm0"));
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_CHANGE), other);
	for (int i = 0; i < 2; i++) { /* each time that it goes; the other's, that stays away, is not told again */
		assert_true(shell("ip addr del " OWN "/24 dev cm0"));
		assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_CHANGE), id);
		assert_true(shell("ip addr add " OWN "/24 dev cm0"));
	}
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(other), 0);
}

static void the_mac_address_changes(void **state)
{
	struct rdma_cm_id *listener;

	if (!has_veth)
		return;
	listener = listen_at(OWN);
	assert_true(shell("ip link set cm0 address 02:00:00:00:00:77"));
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_CHANGE), listener);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_recv_wr receive = {.wr_id = 7}, *bad;

	assert_int_equal(rdma_create_qp(id, NULL, &a), 0);
	assert_int_equal(ibv_post_recv(id->qp, &receive, &bad), 0);
}

static struct rdma_cm_id *connect_to(struct rdma_cm_id *listener, struct rdma_cm_id *client)
{
	struct sockaddr_in there = address(OWN, rdma_get_src_port(listener));
	struct rdma_conn_param p = {0};
	struct rdma_cm_id *server;

	assert_int_equal(rdma_resolve_addr(client, NULL, (struct sockaddr *)&there, 60000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(client, 60000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(client);
	assert_int_equal(rdma_connect(client, &p), 0);
	server = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(server);
	assert_int_equal(rdma_accept(server, &p), 0);
	for (int i = 0; i < 2; i++)
		expect(RDMA_CM_EVENT_ESTABLISHED);
	return server;
}

static void end(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* What was posted comes back, though the QP has no peer that could fail. */
static void expect_flush(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static int devices(void)
{
	struct ibv_context **list;
	int n;

	list = rdma_get_devices(&n);
	if (list)
		rdma_free_devices(list);
	return n;
}

/* As an adapter that is unplugged: ids, QPs and contexts are told, each in its way; what has not got that far finds no
 * device. Another of the same name is another. */
static void the_interface_goes(void **state)
{
	struct rdma_cm_id *id[5], *any, *gone;
	struct sockaddr_in nobody = address("192.0.2.51", 7);
	struct ibv_async_event event;
	unsigned seen = 0;

	if (!has_veth)
		return;
	any = listen_at("0.0.0.0");
	id[0] = listen_at(OWN);
	id[1] = make_id();
	id[2] = connect_to(id[0], id[1]);
	id[3] = bind_at(OWN);
	id[4] = make_id();
	assert_int_equal(rdma_resolve_addr(id[4], NULL, (struct sockaddr *)&nobody, INT32_MAX), 0);
	assert_int_equal(devices(), 1);
	assert_true(shell("ip link del cm0"));
	for (int i = 0; i < 5; i++) {
		gone = expect(RDMA_CM_EVENT_DEVICE_REMOVAL);
		for (int k = 0; k < 5; k++)
			seen |= (id[k] == gone) << k;
	}
	assert_int_equal(seen, 31);
	do
		assert_int_equal(ibv_get_async_event(id[1]->verbs, &event), 0);
	while (ibv_ack_async_event(&event), event.event_type != IBV_EVENT_DEVICE_FATAL);
	expect_flush(id[1]);
	expect_flush(id[2]);
	assert_int_equal(devices(), 0);
	assert_int_equal(rdma_disconnect(id[1]), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_listen(id[3], 1), -1);
	assert_int_equal(errno, EINVAL);
	for (int i = 0; i < 5; i++)
		end(id[i]);

	assert_true(make_interface());
	id[0] = listen_at(OWN);
	id[1] = make_id();
	id[2] = connect_to(id[0], id[1]);
	assert_int_equal(devices(), 1);
	for (int i = 0; i < 3; i++)
		end(id[i]);
	end(any);
}

static void *connect_and_wait(void *id)
{
	struct rdma_conn_param p = {.qp_num = 17};

	return (void *)(intptr_t)(rdma_connect(id, &p) ? errno : 0);
}

static void a_function_that_waits_is_told(void **state)
{
	struct rdma_cm_id *listener, *client, *server;
	struct sockaddr_in there;
	pthread_t thread;
	void *error;

	if (!has_veth)
		return;
	listener = listen_at(OWN);
	there = address(OWN, rdma_get_src_port(listener));
	assert_int_equal(rdma_create_id(NULL, &client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(client, NULL, (struct sockaddr *)&there, 60000), 0);
	assert_int_equal(rdma_resolve_route(client, 60000), 0);
	assert_int_equal(pthread_create(&thread, NULL, connect_and_wait, client), 0);
	server = expect(RDMA_CM_EVENT_CONNECT_REQUEST); /* which gets no answer */
	assert_true(shell("ip link del cm0"));
	assert_int_equal(pthread_join(thread, &error), 0);
	assert_int_equal((intptr_t)error, ENODEV);
	assert_int_equal(rdma_resolve_route(client, 60000), -1);
	assert_int_equal(errno, EINVAL);
	for (int i = 0; i < 2; i++)
		expect(RDMA_CM_EVENT_DEVICE_REMOVAL);
	end(server);
	end(listener);
	end(client);
	assert_true(make_interface());
}

/* ---- from elsewhere ---- */

#define LONG 60000 /* ms: where the machine is busy, it takes seconds */

static int to_stranger, from_stranger;
static pid_t stranger;

/* Another host: connects to the addresses that it is told, and says which error that ends by. */
static void be_stranger(int from, int to)
{
	struct rdma_conn_param p = {.qp_num = 17};
	struct sockaddr_in there;
	struct rdma_cm_id *id;

	netns_enter();
	setenv("UROCE_DEVICES", "cm1", 1);
	while (read(from, &there, sizeof(there)) == sizeof(there)) {
		int error = 0;

		shell("ip addr replace 198.51.100.2/24 dev cm1; ip link set cm1 up");
		if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
			_exit(1);
		if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, LONG) || rdma_resolve_route(id, LONG) ||
		    rdma_connect(id, &p))
			error = errno;
		rdma_destroy_id(id);
		if (write(to, &error, sizeof(error)) != sizeof(error))
			_exit(1);
	}
	_exit(0);
}

static void start_stranger(void)
{
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		_exit(1);
	stranger = fork();
	if (stranger == 0) {
		close(there[1]);
		be_stranger(there[0], back[1]);
	}
	to_stranger = there[1];
	from_stranger = back[0];
	close(there[0]);
	close(back[1]);
}

/* With both ends of the pair up, and one of them there. */
static void come_by(struct rdma_cm_id *listener, const char *to)
{
	struct sockaddr_in at = address(to, rdma_get_src_port(listener));
	struct rdma_cm_id *server;
	char command[100];
	int error;

	snprintf(command, sizeof(command), "ip link set cm1 netns %d", (int)stranger);
	shell(command); /* once */
	assert_int_equal(write(to_stranger, &at, sizeof(at)), sizeof(at));
	server = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject(server, NULL, 0), 0);
	end(server);
	assert_int_equal(read(from_stranger, &error, sizeof(error)), sizeof(error));
	assert_int_equal(error, ECONNREFUSED);
}

static void who_listens_at_all_does_so_at_those_that_come(void **state)
{
	struct rdma_cm_id *listener;

	if (!has_veth)
		return;
	listener = listen_at("0.0.0.0");
	assert_true(shell("ip addr add 198.51.100.1/24 dev cm0"));
	come_by(listener, "198.51.100.1");
	assert_true(shell("ip link del cm0"));
	assert_true(make_interface());
	assert_true(shell("ip addr add 198.51.100.3/24 dev cm0"));
	come_by(listener, "198.51.100.3");
	end(listener);
}

/* ---- where nobody is ---- */

static pid_t nobody; /* has a network namespace, and no more */

static void start_nobody(void)
{
	int ready[2], parent = getpid();
	char byte;

	if (pipe(ready))
		_exit(1);
	nobody = fork();
	if (nobody == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		netns_enter();
		close(ready[0]);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	(void)!read(ready[0], &byte, 1); /* until it is there */
	close(ready[0]);
}

static int expect_refusal(const char *to, enum rdma_port_space ps, enum rdma_cm_event_type type)
{
	struct sockaddr_storage there = {.ss_family = strchr(to, ':') ? AF_INET6 : AF_INET};
	struct rdma_conn_param p = {.qp_num = 17};
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	int status;

	inet_pton(there.ss_family, to,
		  there.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&there)->sin_addr
					     : (void *)&((struct sockaddr_in6 *)&there)->sin6_addr);
	((struct sockaddr_in *)&there)->sin_port = htons(7471);
	assert_int_equal(rdma_create_id(channel, &id, NULL, ps), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 60000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 60000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_connect(id, &p), 0);
	assert_int_equal(rdma_get_cm_event(channel, &e), 0);
	if (e->event != type)
		fail_msg("%s (%d) instead of %s", rdma_event_str(e->event), e->status, rdma_event_str(type));
	status = e->status;
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_destroy_id(id), 0);
	return status;
}

/* Long before the last repetition of the request, which would be after a minute and more. */
static void who_is_not_there_is_not_waited_for(void **state)
{
	bool has_ipv6 = netns_has_ipv6();
	char command[400];

	if (!has_veth)
		return;
	snprintf(command, sizeof(command),
		 "ip link set cm1 netns %d && %s ip route add 203.0.113.0/24 via 192.0.2.3 && "
		 "nsenter -t %d -n sh -c 'ip addr add 192.0.2.3/24 dev cm1 && %s ip link set cm1 up && echo 1 "
		 ">/proc/sys/net/ipv4/ip_forward && ip route add unreachable "
		 "203.0.113.0/24'",
		 (int)nobody, has_ipv6 ? "ip addr add fd77::1/64 dev cm0 nodad &&" : "", (int)nobody,
		 has_ipv6 ? "ip addr add fd77::3/64 dev cm1 nodad &&" : "");
	assert_true(shell(command));
	/* a host without a socket there: it does not know the service */
	assert_int_equal(expect_refusal("192.0.2.3", RDMA_PS_TCP, RDMA_CM_EVENT_REJECTED), 8);
	assert_int_equal(expect_refusal("192.0.2.3", RDMA_PS_UDP, RDMA_CM_EVENT_UNREACHABLE), 1);
	if (has_ipv6)
		assert_int_equal(expect_refusal("fd77::3", RDMA_PS_TCP, RDMA_CM_EVENT_REJECTED), 8);
	/* no host, says the one on the way */
	assert_int_equal(expect_refusal("203.0.113.4", RDMA_PS_TCP, RDMA_CM_EVENT_UNREACHABLE), -EHOSTUNREACH);
	assert_int_equal(expect_refusal("203.0.113.4", RDMA_PS_UDP, RDMA_CM_EVENT_UNREACHABLE), -EHOSTUNREACH);
	assert_true(shell("ip link del cm0"));
	assert_true(make_interface());
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
		cmocka_unit_test(a_host_that_does_not_answer_is_no_address),
		cmocka_unit_test(a_link_local_address_is_one_of_an_interface),
		cmocka_unit_test(the_address_of_an_id_goes),
		cmocka_unit_test(the_mac_address_changes),
		cmocka_unit_test(the_interface_goes),
		cmocka_unit_test(a_function_that_waits_is_told),
		cmocka_unit_test(who_is_not_there_is_not_waited_for),
		cmocka_unit_test(who_listens_at_all_does_so_at_those_that_come),
	};

	start_stranger();
	start_nobody();
	netns_enter();
	setenv("UROCE_DEVICES", "cm0", 1);
	has_veth = make_interface();
	return cmocka_run_group_tests(tests, open_channel, close_channel);
}
