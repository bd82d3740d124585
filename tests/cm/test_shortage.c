/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections without enough memory or descriptors. */
#include "ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/netns.h"

#define OWN "192.0.2.1" /* of the device that is opened first; the second one is lo */

static struct rdma_event_channel *channel;

static int bind_to(struct rdma_cm_id *id, const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(text)};

	return rdma_bind_addr(id, (struct sockaddr *)&a);
}

static int bind_loopback(struct rdma_cm_id *id)
{
	return bind_to(id, "127.0.0.1");
}

static int bind_all(struct rdma_cm_id *id)
{
	return bind_to(id, "0.0.0.0");
}

static int listen_everywhere(struct rdma_cm_id *id)
{
	return rdma_listen(id, 0);
}

static int resolve(struct rdma_cm_id *id, const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7), .sin_addr.s_addr = inet_addr(text)}, *got;

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 60000))
		return -1;
	got = (struct sockaddr_in *)&id->route.addr.src_addr;
	if (got->sin_addr.s_addr != a.sin_addr.s_addr)
		return errno = EADDRNOTAVAIL, -1;
	return 0;
}

static int resolve_loopback(struct rdma_cm_id *id)
{
	return resolve(id, "127.0.0.1");
}

static int resolve_own(struct rdma_cm_id *id)
{
	return resolve(id, OWN);
}

#define NO_PD(n)     "call ibv_alloc_pd nth " #n ": refuse ENOMEM"
#define NO_DEVICE(n) "call ibv_open_device nth " #n ": refuse EMFILE"

/* A device that cannot be opened: the call that needs it says so, and succeeds when it is made again. Each row runs in
 * a process of its own, as a device is opened once. */
static const struct row {
	const char *name, *rule;
	int (*call)(struct rdma_cm_id *id);
	int error; /* of the first call; the second has none */
} rows[] = {
	{"bind to the loopback, no PD for lo", NO_PD(2), bind_loopback, ENOMEM},
	{"bind to the loopback, no context for lo", NO_DEVICE(2), bind_loopback, EMFILE},
	{"bind to the loopback, no PD for another device", NO_PD(1), bind_loopback, 0},
	{"bind to all, no PD for one", NO_PD(1), bind_all, ENOMEM},
	{"bind to all, no context for one", NO_DEVICE(2), bind_all, EMFILE},
	{"listen without an address, no PD for one", NO_PD(2), listen_everywhere, ENOMEM},
	{"connect to the loopback, no PD for lo", NO_PD(2), resolve_loopback, ENOMEM},
	{"connect to the loopback, no context for lo", NO_DEVICE(2), resolve_loopback, EMFILE},
	{"connect to an own address, no PD for that device", NO_PD(1), resolve_own, ENOMEM},
	{"connect to an own address, no PD for another device", NO_PD(2), resolve_own, 0},
};

/* 0 or the errno of the call. */
static int attempt(const struct row *r)
{
	struct rdma_cm_id *id;
	int error;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return errno;
	error = r->call(id) ? errno : 0;
	rdma_destroy_id(id);
	return error;
}

/* In a child: its exit status. */
static int run_row(const struct row *r)
{
	int first, second;

	setenv("UROCE_FAULT", r->rule, 1);
	channel = rdma_create_event_channel();
	first = channel ? attempt(r) : -1;
	second = channel ? attempt(r) : -1;
	if (first != r->error || second)
		printf("# %s: first %s, then %s\n", r->name, strerror(first), strerror(second));
	fflush(stdout);
	return first != r->error || second;
}

static void a_device_that_cannot_be_opened_is_told(void **state)
{
	int status, failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (!child)
			_exit(run_row(&rows[i]));
		assert_int_equal(waitpid(child, &status, 0), child);
		failed += status != 0;
	}
	assert_int_equal(failed, 0);
}

/* Until release_descriptors() this process can open none. */
static void take_descriptors(struct rlimit *before)
{
	struct rlimit none;
	int next = dup(0);

	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = before->rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

static void *get_request(void *listener)
{
	struct rdma_cm_id *id = NULL;

	return rdma_get_request(listener, &id) ? NULL : id;
}

static void ask(struct ends *e)
{
	struct ibv_qp_init_attr a = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct rdma_conn_param p = {.responder_resources = 1};

	assert_int_equal(rdma_create_id(e->client_channel, &e->client, e, RDMA_PS_TCP), 0);
	ends_resolve(e);
	assert_int_equal(rdma_create_qp(e->client, NULL, &a), 0);
	assert_int_equal(rdma_connect(e->client, &p), 0);
}

static void end_client(struct ends *e)
{
	rdma_destroy_qp(e->client);
	rdma_destroy_id(e->client);
	e->client = NULL;
}

/* rdma_get_request() makes an event channel for each connection. */
static void a_request_for_which_there_is_no_descriptor_is_rejected(void **state)
{
	struct ends e = {.address = ends_loopback(0), .client_channel = rdma_create_event_channel()};
	struct rlimit before;
	pthread_t thread;

	assert_int_equal(rdma_create_id(NULL, &e.listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(e.listener, (struct sockaddr *)&e.address), 0);
	e.address.sin_port = rdma_get_src_port(e.listener);
	assert_int_equal(rdma_listen(e.listener, 0), 0);
	ask(&e);
	take_descriptors(&before);
	assert_int_equal(pthread_create(&thread, NULL, get_request, e.listener), 0);
	ends_expect(&e, e.client_channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	end_client(&e);
	ask(&e); /* the server still waits for one */
	assert_int_equal(pthread_join(thread, (void **)&e.server), 0);
	assert_non_null(e.server);
	end_client(&e);
	rdma_destroy_id(e.server);
	rdma_destroy_id(e.listener);
	rdma_destroy_event_channel(e.client_channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_cannot_be_opened_is_told),
		cmocka_unit_test(a_request_for_which_there_is_no_descriptor_is_rejected),
	};

	netns_enter();
	if (system("ip link add cm0 type veth peer name cm1 && ip link set cm0 addrgenmode none && ip addr add " OWN
		   "/24 dev cm0 && ip link set cm0 up && ip link set cm1 up")) {
		puts("1..0 # SKIP no veth here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
