/* The rdma_* functions, both ends in one process over its loopback: which events come, with what in them.
 * SPDX-License-Identifier: BSD-2-Clause */
#include "cm/id.h"
#include "loop/netns.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Both ends of a connection, or of one that is to be. */
struct ends {
	struct rdma_event_channel *server_channel, *client_channel;
	struct rdma_cm_id *listener, *server, *client;
	struct sockaddr_in address; /* where `listener` listens */
	struct rdma_conn_param told; /* of the last event ... */
	struct rdma_ud_param told_ud;
	uint8_t data[PRIVATE_ROOM];
	int status;
};

static void *pattern(uint8_t byte, size_t length)
{
	static uint8_t bytes[PRIVATE_ROOM];

	memset(bytes, byte, length);
	return bytes;
}

/* The next event there; keeps what it says. Returns its id. */
static struct rdma_cm_id *expect(struct ends *e, struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	bool is_ud;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	const void *data;
	size_t length;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	if (event->event != type)
		fail_msg("%s (%d) instead of %s", rdma_event_str(event->event), event->status, rdma_event_str(type));
	id = event->id;
	is_ud = id->qp_type == IBV_QPT_UD;
	e->status = event->status;
	e->told = event->param.conn;
	e->told_ud = event->param.ud;
	data = is_ud ? event->param.ud.private_data : event->param.conn.private_data;
	length = is_ud ? event->param.ud.private_data_len : event->param.conn.private_data_len;
	memset(e->data, 0, sizeof(e->data));
	if (data)
		memcpy(e->data, data, length);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	return id;
}

static void expect_data(const struct ends *e, uint8_t byte, size_t length)
{
	for (size_t i = 0; i < length; i++)
		assert_int_equal(e->data[i], byte);
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void open_ends(struct ends *e, enum rdma_port_space ps)
{
	*e = (struct ends){.address = loopback(0)};
	assert_non_null(e->server_channel = rdma_create_event_channel());
	assert_non_null(e->client_channel = rdma_create_event_channel());
	assert_int_equal(rdma_create_id(e->server_channel, &e->listener, e, ps), 0);
	assert_int_equal(rdma_create_id(e->client_channel, &e->client, e, ps), 0);
	assert_int_equal(rdma_bind_addr(e->listener, (struct sockaddr *)&e->address), 0);
	e->address.sin_port = rdma_get_src_port(e->listener);
	assert_int_not_equal(e->address.sin_port, 0);
	assert_int_equal(rdma_listen(e->listener, 0), 0);
}

static void close_ends(struct ends *e)
{
	for (struct rdma_cm_id **id = &e->listener; id <= &e->client; id++) {
		if (!*id)
			continue;
		if ((*id)->qp)
			rdma_destroy_qp(*id);
		assert_int_equal(rdma_destroy_id(*id), 0);
	}
	rdma_destroy_event_channel(e->server_channel);
	rdma_destroy_event_channel(e->client_channel);
}

static void resolve(struct ends *e)
{
	assert_int_equal(rdma_resolve_addr(e->client, NULL, (struct sockaddr *)&e->address, 1000), 0);
	assert_ptr_equal(expect(e, e->client_channel, RDMA_CM_EVENT_ADDR_RESOLVED), e->client);
	assert_int_equal(rdma_resolve_route(e->client, 1000), 0);
	expect(e, e->client_channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {.cap = {4, 4, 1, 1, 0}, .qp_type = id->qp_type};

	assert_int_equal(rdma_create_qp(id, NULL, &a), 0);
}

static void ask(struct ends *e, uint8_t depth)
{
	struct rdma_conn_param p = {.private_data = pattern(0xa1, 56),
				    .private_data_len = 56,
				    .responder_resources = depth,
				    .initiator_depth = depth + 1,
				    .retry_count = 5,
				    .rnr_retry_count = 6};

	resolve(e);
	make_qp(e->client);
	assert_int_equal(rdma_connect(e->client, &p), 0);
	e->server = expect(e, e->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(e->server->context, e);
	expect_data(e, 0xa1, 56);
}

static void accept_it(struct ends *e)
{
	struct rdma_conn_param p = {.private_data = pattern(0xb2, 196),
				    .private_data_len = 196,
				    .responder_resources = e->told.responder_resources,
				    .initiator_depth = e->told.initiator_depth,
				    .rnr_retry_count = 4};

	make_qp(e->server);
	assert_int_equal(rdma_accept(e->server, &p), 0);
	expect(e, e->client_channel, RDMA_CM_EVENT_ESTABLISHED);
}

static void a_connection_comes_and_goes(void **state)
{
	struct ends e;

	open_ends(&e, RDMA_PS_TCP);
	ask(&e, 3);
	assert_int_equal(e.told.private_data_len, 56);
	assert_int_equal(e.told.responder_resources, 4); /* what the peer may have under way */
	assert_int_equal(e.told.initiator_depth, 3);
	assert_int_equal(e.told.retry_count, 5);
	assert_int_equal(e.told.rnr_retry_count, 6);
	assert_int_equal(e.told.qp_num, e.client->qp->qp_num);
	accept_it(&e);
	assert_int_equal(e.told.private_data_len, 196);
	expect_data(&e, 0xb2, 196);
	assert_int_equal(e.told.qp_num, e.server->qp->qp_num);
	assert_int_equal(e.told.rnr_retry_count, 4);
	expect(&e, e.server_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_get_src_port(e.server), e.address.sin_port);
	assert_int_equal(rdma_get_dst_port(e.server), rdma_get_src_port(e.client));

	assert_int_equal(rdma_disconnect(e.client), 0);
	assert_ptr_equal(expect(&e, e.server_channel, RDMA_CM_EVENT_DISCONNECTED), e.server);
	assert_int_equal(rdma_disconnect(e.server), 0);
	expect(&e, e.client_channel, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(e.status, 0);
	expect(&e, e.client_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	expect(&e, e.server_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	close_ends(&e);
}

static void query(struct rdma_cm_id *id, struct ibv_qp_attr *a)
{
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_query_qp(id->qp, a, IBV_QP_SQ_PSN | IBV_QP_RQ_PSN | IBV_QP_STATE, &init), 0);
	assert_int_equal(a->qp_state, IBV_QPS_RTS);
}

/* As kernels have it (test_replay.c sees it in the captures): the sender of a REQ or REP says with which PSN its peer
 * is to begin. */
static void each_end_says_with_which_psn_the_other_begins(void **state)
{
	struct ibv_qp_attr client, server;
	struct cm_mad rep;
	struct ends e;

	open_ends(&e, RDMA_PS_TCP);
	ask(&e, 1);
	accept_it(&e);
	lock_take(&cm.lock);
	assert_int_equal(cm_mad_parse(&rep, id_of(e.server)->connection->message), 0);
	lock_drop(&cm.lock);
	assert_int_equal(rep.message, CM_REP);
	query(e.client, &client);
	query(e.server, &server);
	assert_int_equal(client.sq_psn, rep.psn);
	assert_int_equal(server.rq_psn, rep.psn);
	assert_int_equal(server.sq_psn, client.rq_psn);
	assert_int_not_equal(server.sq_psn, rep.psn);
	close_ends(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_comes_and_goes),
		cmocka_unit_test(each_end_says_with_which_psn_the_other_begins),
	};

	netns_enter();
	setenv("UROCE_DEVICES", "lo", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
