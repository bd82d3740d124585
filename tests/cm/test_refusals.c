/* SPDX-License-Identifier: BSD-2-Clause */
/* All processes at an address share its QP1, so that a process gets messages which are not for it: connection requests,
 * though it makes no connections, and the word of a client that has given up. */
#include "cm/id.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "cm/state.h"
#include "loop/netns.h"

enum { OTHERS = 4, CLIENTS = 8 };

static struct rdma_event_channel *channel;
static int to_client, from_client;

/* A queue pair at 127.0.0.1, and nothing by librdmacm. */
static void use_verbs(int ready)
{
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	setenv("UROCE_DEVICES", "127.0.0.1", 1);
	list = ibv_get_device_list(NULL);
	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	cq = context ? ibv_create_cq(context, 1, NULL, NULL, 0) : NULL;
	init.send_cq = init.recv_cq = cq;
	qp = cq ? ibv_create_qp(ibv_alloc_pd(context), &init) : NULL;
	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		_exit(1);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = qp->qp_num,
				    .ah_attr = {.is_global = 1, .port_num = 1}};
	if (ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) ||
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
	    write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* Each from an address of its own, so that different processes get the messages. */
static void give_up(struct sockaddr_in to)
{
	struct rdma_conn_param p = {.qp_num = 17, .retry_count = 7};

	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + i)};
		struct rdma_cm_id *id;
		char byte;

		if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) ||
		    rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000) ||
		    rdma_resolve_route(id, 2000) || rdma_migrate_id(id, rdma_create_event_channel()) ||
		    rdma_connect(id, &p) || read(to_client, &byte, 1) != 1 || rdma_destroy_id(id))
			_exit(1);
	}
	_exit(0);
}

static void start_client(void)
{
	struct sockaddr_in to;
	int down[2];

	if (pipe(down))
		exit(1);
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		to_client = down[0];
		setenv("UROCE_DEVICES", "127.0.0.1..127.0.0.9", 1);
		if (read(to_client, &to, sizeof(to)) == sizeof(to))
			give_up(to);
		_exit(1);
	}
	from_client = down[1];
}

static void next(enum rdma_cm_event_type type, int status)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *e;

	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(rdma_get_cm_event(channel, &e), 0);
	assert_string_equal(rdma_event_str(e->event), rdma_event_str(type));
	assert_int_equal(e->status, status);
	rdma_ack_cm_event(e);
}

static void ask(enum rdma_port_space space)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)},
			   to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = 9};
	struct rdma_conn_param p = {.qp_num = 17, .retry_count = 7};
	struct rdma_cm_id *id;

	assert_non_null(channel = rdma_create_event_channel());
	assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
	assert_int_equal(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000), 0);
	next(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	next(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(rdma_connect(id, &p), 0);
	if (space == RDMA_PS_TCP)
		next(RDMA_CM_EVENT_REJECTED, 8); /* there is no such service */
	else
		next(RDMA_CM_EVENT_UNREACHABLE, 1);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
}

static void a_connection(void **state)
{
	ask(RDMA_PS_TCP);
}

static void a_lookup(void **state)
{
	ask(RDMA_PS_UDP);
}

static enum connection_state state_of(struct rdma_cm_id *id)
{
	enum connection_state state;

	lock_take(&cm.lock);
	state = id_of(id)->connection->state;
	lock_drop(&cm.lock);
	return state;
}

static void a_client_gives_up(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_id *listener;

	assert_non_null(channel = rdma_create_event_channel());
	assert_int_equal(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&at), 0);
	assert_int_equal(rdma_listen(listener, CLIENTS), 0);
	at.sin_port = rdma_get_src_port(listener);
	assert_int_equal(write(from_client, &at, sizeof(at)), sizeof(at));
	for (int i = 0; i < CLIENTS; i++) {
		struct rdma_cm_event *e;
		struct rdma_cm_id *id;

		assert_int_equal(rdma_get_cm_event(channel, &e), 0);
		assert_int_equal(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
		id = e->id;
		rdma_ack_cm_event(e);
		assert_int_equal(write(from_client, "", 1), 1); /* before the request is repeated, after 50 ms */
		for (int ms = 0; state_of(id) == CM_REQ_RECEIVED; ms++) {
			if (ms == 3000)
				fail_msg("client %d: its word is lost", i);
			usleep(1000);
		}
		rdma_destroy_id(id);
	}
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_connection), cmocka_unit_test(a_lookup),
					   cmocka_unit_test(a_client_gives_up)};
	int ends[2];
	char byte;

	netns_enter();
	if (pipe(ends))
		return 1;
	start_client();
	for (int i = 0; i < OTHERS; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			use_verbs(ends[1]);
		}
	for (int i = 0; i < OTHERS; i++)
		if (read(ends[0], &byte, 1) != 1)
			return 1;
	setenv("UROCE_DEVICES", "127.0.0.1..127.0.0.2", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
