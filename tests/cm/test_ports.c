/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses and ports that ids are bound to: who may have which, and when a bind is refused. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "ends.h"
#include "loop/netns.h"

static int bind_to(struct rdma_cm_id *id, uint32_t ip, __be16 port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(ip)};

	return rdma_bind_addr(id, (struct sockaddr *)&a) ? errno : 0;
}

static void a_port_has_one_user_unless_they_agree(void **state)
{
	static const struct {
		bool reuse, other_space;
		uint32_t ip;
		int error;
	} row[] = {
		{.ip = INADDR_LOOPBACK, .error = EADDRINUSE},
		{.ip = INADDR_ANY, .error = EADDRNOTAVAIL},
		{.ip = INADDR_LOOPBACK + 1, .error = 0},
		{.ip = INADDR_LOOPBACK, .other_space = true, .error = 0},
		{.ip = INADDR_LOOPBACK, .reuse = true, .error = EADDRINUSE}, /* the other listens */
		{.ip = 0x08080808, .error = EADDRNOTAVAIL},
	};
	struct ends e;

	ends_open(&e, RDMA_PS_TCP);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct rdma_cm_id *id;
		int one = row[i].reuse;

		assert_int_equal(
			rdma_create_id(e.client_channel, &id, NULL, row[i].other_space ? RDMA_PS_UDP : RDMA_PS_TCP), 0);
		assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)), 0);
		/* 127.0.0.2 is an address of lo only where it has been given to it */
		if (row[i].ip != INADDR_LOOPBACK + 1)
			assert_int_equal(bind_to(id, row[i].ip, e.address.sin_port), row[i].error);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	ends_close(&e);
}

/* It is as before: on no device, and free to be bound elsewhere. Each row: to where it cannot be bound. */
static void what_could_not_be_bound_is_bound_nowhere(void **state)
{
	static const struct {
		int family;
		uint32_t ip;
		int error;
	} row[] = {
		{AF_INET, INADDR_LOOPBACK, EADDRINUSE},
		{AF_INET, 0x08080808, EADDRNOTAVAIL},
		{AF_UNIX, 0, EINVAL},
		{0, 0, EINVAL},
	};
	struct ends e;

	ends_open(&e, RDMA_PS_TCP);
	assert_int_equal(rdma_get_peer_addr(e.listener)->sa_family, AF_INET); /* as the kernel has it */
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct sockaddr_in a = {.sin_family = (sa_family_t)row[i].family,
					.sin_port = e.address.sin_port,
					.sin_addr.s_addr = htonl(row[i].ip)};

		assert_int_equal(rdma_bind_addr(e.client, (struct sockaddr *)&a), -1);
		assert_int_equal(errno, row[i].error);
		assert_null(e.client->verbs);
		assert_null(e.client->pd);
		assert_int_equal(e.client->port_num, 0);
		assert_null(id_of(e.client)->device);
		assert_int_equal(rdma_get_local_addr(e.client)->sa_family, 0);
	}
	assert_int_equal(bind_to(e.client, INADDR_LOOPBACK, 0), 0);
	ends_close(&e);
}

/* libfabric wants none; programs that are tried on one machine want one. */
static void an_id_at_the_loopback_has_a_device_if_that_is_asked_for(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	for (int asked = 0; asked < 2; asked++) {
		if (asked)
			setenv("UROCE_LOOPBACK", "device", 1);
		assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(bind_to(id, INADDR_LOOPBACK, 0), 0);
		assert_true(asked ? id->verbs && id->pd && id->port_num == 1 : !id->verbs && !id->pd);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	unsetenv("UROCE_LOOPBACK");
	rdma_destroy_event_channel(channel);
}

static void families_of_source_and_destination_are_one(void **state)
{
	struct sockaddr_in6 source = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct ends e;

	ends_open(&e, RDMA_PS_TCP);
	assert_int_equal(rdma_resolve_addr(e.client, (struct sockaddr *)&source, (struct sockaddr *)&e.address, 60000),
			 -1);
	assert_int_equal(errno, EINVAL);
	ends_resolve(&e); /* and nothing has come of it */
	ends_close(&e);
}

/* The source does not matter: where no route leads nobody is found. */
static void where_no_route_leads_nobody_is_found(void **state)
{
	struct sockaddr_in source = ends_loopback(0), to = ends_loopback(7471);
	struct ends e;

	to.sin_addr.s_addr = htonl(0xc0000201);
	for (int bound = 0; bound < 2; bound++) {
		ends_open(&e, RDMA_PS_TCP);
		assert_int_equal(rdma_resolve_addr(e.client, bound ? (struct sockaddr *)&source : NULL,
						   (struct sockaddr *)&to, 60000),
				 -1);
		assert_int_equal(errno, ENETUNREACH);
		ends_close(&e);
	}
}

static void who_agrees_shares_a_port(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id[2];
	int one = 1;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdma_create_id(channel, &id[i], NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_set_option(id[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)),
				 0);
		assert_int_equal(bind_to(id[i], INADDR_LOOPBACK, i ? rdma_get_src_port(id[0]) : 0), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(rdma_destroy_id(id[i]), 0);
	rdma_destroy_event_channel(channel);
}

/* Who is bound already may agree, but not take it back; who listens may do neither. */
static void a_port_is_shared_from_now_on(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id[2];
	int yes = 1, no = 0;

	for (int i = 0; i < 2; i++)
		assert_int_equal(rdma_create_id(channel, &id[i], NULL, RDMA_PS_TCP), 0);
	assert_int_equal(bind_to(id[0], INADDR_LOOPBACK, 0), 0);
	assert_int_equal(rdma_set_option(id[1], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
	assert_int_equal(bind_to(id[1], INADDR_LOOPBACK, rdma_get_src_port(id[0])), EADDRINUSE);
	assert_int_equal(rdma_set_option(id[0], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &no, sizeof(no)), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_set_option(id[0], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
	assert_int_equal(rdma_set_option(id[0], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &no, sizeof(no)), -1);
	assert_int_equal(bind_to(id[1], INADDR_LOOPBACK, rdma_get_src_port(id[0])), 0);
	assert_int_equal(rdma_destroy_id(id[1]), 0);
	assert_int_equal(rdma_listen(id[0], 1), 0);
	assert_int_equal(rdma_set_option(id[0], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id[0]), 0);
	rdma_destroy_event_channel(channel);
}

/* As servers do that open a listener for each family, in either order. */
static void both_families_listen_at_one_port(void **state)
{
	static const struct {
		bool v6_first;
		int v6_only, error;
	} row[] = {{false, 1, 0}, {true, 1, 0}, {false, 0, EADDRNOTAVAIL}, {true, 0, EADDRNOTAVAIL}};

	if (!netns_has_ipv6())
		return;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
		struct sockaddr_in any4 = {.sin_family = AF_INET};
		struct sockaddr *first = row[i].v6_first ? (struct sockaddr *)&any6 : (struct sockaddr *)&any4;
		struct sockaddr *second = row[i].v6_first ? (struct sockaddr *)&any4 : (struct sockaddr *)&any6;
		struct rdma_event_channel *channel = rdma_create_event_channel();
		struct rdma_cm_id *id[2];

		for (int k = 0; k < 2; k++) {
			int v6_only = row[i].v6_only;

			assert_int_equal(rdma_create_id(channel, &id[k], NULL, RDMA_PS_TCP), 0);
			assert_int_equal(rdma_set_option(id[k], RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &v6_only,
							 sizeof(v6_only)),
					 0);
		}
		assert_int_equal(rdma_bind_addr(id[0], first), 0);
		assert_int_equal(rdma_listen(id[0], 1), 0);
		any4.sin_port = any6.sin6_port = rdma_get_src_port(id[0]);
		errno = 0;
		assert_int_equal(rdma_bind_addr(id[1], second), row[i].error ? -1 : 0);
		if (row[i].error)
			assert_int_equal(errno, row[i].error);
		else
			assert_int_equal(rdma_listen(id[1], 1), 0);
		for (int k = 0; k < 2; k++)
			assert_int_equal(rdma_destroy_id(id[k]), 0);
		rdma_destroy_event_channel(channel);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_has_one_user_unless_they_agree),
		cmocka_unit_test(what_could_not_be_bound_is_bound_nowhere),
		cmocka_unit_test(an_id_at_the_loopback_has_a_device_if_that_is_asked_for),
		cmocka_unit_test(families_of_source_and_destination_are_one),
		cmocka_unit_test(where_no_route_leads_nobody_is_found),
		cmocka_unit_test(who_agrees_shares_a_port),
		cmocka_unit_test(a_port_is_shared_from_now_on),
		cmocka_unit_test(both_families_listen_at_one_port),
	};

	netns_enter();
	setenv("UROCE_DEVICES", "lo", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
