/* SPDX-License-Identifier: BSD-2-Clause */
/* The rdma_* functions, both ends in one process over its loopback: which events come, with what in them. */
#include "cm/id.h"
#include "cm/newer.h"
#include "cm/probe.h"
#include "loop/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Both ends of a connection, or of one that is to be. */
struct ends {
	struct rdma_event_channel *server_channel, *client_channel;
	struct rdma_cm_id *listener, *server, *client;
	struct sockaddr_in address;  /* where `listener` listens */
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

/* librdmacm does not compare them: libfabric connects XRC's queue pairs by ids of RDMA_PS_TCP. */
static void queue_pairs_may_be_of_another_type_than_their_id(void **state)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_qp_init_attr_ex sender = {.cap = {4, 0, 1, 0, 0}, .qp_type = IBV_QPT_XRC_SEND},
				   target = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1};
	struct ibv_qp_attr client, server;
	struct ends e;

	open_ends(&e, RDMA_PS_TCP);
	resolve(&e);
	assert_int_equal(rdma_create_qp_ex(e.client, &sender), 0);
	assert_int_equal(rdma_connect(e.client, &p), 0);
	e.server = expect(&e, e.server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_non_null(target.xrcd = ibv_open_xrcd(e.server->verbs, &domain));
	assert_int_equal(rdma_create_qp_ex(e.server, &target), 0);
	assert_int_equal(rdma_accept(e.server, &p), 0);
	expect(&e, e.client_channel, RDMA_CM_EVENT_ESTABLISHED);
	query(e.client, &client);
	query(e.server, &server);
	assert_int_equal(client.sq_psn, server.rq_psn);
	rdma_destroy_qp(e.server);
	assert_int_equal(ibv_close_xrcd(target.xrcd), 0);
	close_ends(&e);
}

/* ---- refusals ---- */

static void a_refusal_says_why(void **state)
{
	struct ends e;

	open_ends(&e, RDMA_PS_TCP);
	ask(&e, 1);
	assert_int_equal(rdma_reject(e.server, pattern(0xc3, 148), 148), 0);
	expect(&e, e.client_channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(e.status, CM_REASON_CONSUMER);
	assert_int_equal(e.told.private_data_len, 148);
	expect_data(&e, 0xc3, 148);
	assert_int_equal(rdma_reject(e.server, NULL, 0), -1); /* once is enough */
	close_ends(&e);

	open_ends(&e, RDMA_PS_TCP);
	ask(&e, 1);
	assert_int_equal(rdma_reject_ece(e.server, NULL, 0), 0);
	expect(&e, e.client_channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(e.status, CM_REASON_VENDOR_OPTION);
	close_ends(&e);
}

static void nobody_listens(void **state)
{
	static const struct {
		enum rdma_port_space ps;
		enum rdma_cm_event_type tells;
		int status;
	} row[] = {
		{RDMA_PS_TCP, RDMA_CM_EVENT_REJECTED, CM_REASON_INVALID_SERVICE},
		{RDMA_PS_UDP, RDMA_CM_EVENT_UNREACHABLE, CM_SIDR_UNSUPPORTED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct rdma_conn_param p = {0};
		struct ends e;

		open_ends(&e, row[i].ps);
		assert_int_equal(rdma_destroy_id(e.listener), 0);
		e.listener = NULL;
		resolve(&e);
		make_qp(e.client);
		assert_int_equal(rdma_connect(e.client, &p), 0);
		expect(&e, e.client_channel, row[i].tells);
		assert_int_equal(e.status, row[i].status);
		close_ends(&e);
	}
}

static void what_is_too_long_or_too_early_is_refused(void **state)
{
	struct rdma_conn_param p = {.private_data = pattern(1, 57), .private_data_len = 57};
	struct ends e;

	open_ends(&e, RDMA_PS_TCP);
	assert_int_equal(rdma_connect(e.client, &p), -1);
	assert_int_equal(rdma_resolve_route(e.client, 1), -1);
	assert_int_equal(rdma_disconnect(e.client), -1);
	assert_int_equal(rdma_accept(e.client, NULL), -1);
	resolve(&e);
	make_qp(e.client);
	assert_int_equal(rdma_connect(e.client, &p), -1);
	assert_int_equal(errno, EINVAL);
	p.private_data_len = 56;
	p.responder_resources = 254;
	assert_int_equal(rdma_connect(e.client, &p), -1);
	p.responder_resources = 1;
	assert_int_equal(rdma_connect(e.client, &p), 0);
	assert_int_equal(rdma_connect(e.client, &p), -1);
	e.server = expect(&e, e.server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	close_ends(&e);
}

/* Nobody is left to wait for an answer that was never given. */
static void an_answer_that_is_too_long_rejects(void **state)
{
	static const struct {
		enum rdma_port_space ps;
		uint8_t length; /* one too many */
		enum rdma_cm_event_type tells;
		int status;
	} row[] = {
		{RDMA_PS_TCP, 197, RDMA_CM_EVENT_REJECTED, CM_REASON_CONSUMER},
		{RDMA_PS_UDP, 137, RDMA_CM_EVENT_UNREACHABLE, CM_SIDR_REJECT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct rdma_conn_param p = {.private_data = pattern(1, row[i].length), .qp_num = 5};
		struct ends e;

		open_ends(&e, row[i].ps);
		resolve(&e);
		assert_int_equal(rdma_connect(e.client, &p), 0);
		e.server = expect(&e, e.server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		p.private_data_len = row[i].length;
		assert_int_equal(rdma_accept(e.server, &p), -1);
		assert_int_equal(errno, EINVAL);
		expect(&e, e.client_channel, row[i].tells);
		assert_int_equal(e.status, row[i].status);
		assert_int_equal(rdma_reject(e.server, NULL, 0), -1);
		close_ends(&e);
	}
}

/* What is shorter than BTH and ICRC takes down machines with rxe. To QP 0, of which nobody hears. */
static void a_probe_is_as_long_as_a_packet_must_be(void **state)
{
	static const uint8_t bth[12];
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(4791), .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
	struct cm_address address = {.local.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1},
				     .remote.raw = {[10] = 0xff, 0xff, 127, 0, 0, 2}};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	uint8_t got[64];

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	lock_take(&cm.lock);
	probe_send(&address, 0x12345678);
	lock_drop(&cm.lock);
	assert_int_equal(recv(fd, got, sizeof(got), 0), 16);
	assert_memory_equal(got, bth, sizeof(bth));
	close(fd);
}

/* ---- datagrams ---- */

static void a_datagram_service_is_found(void **state)
{
	struct rdma_conn_param p = {.private_data = pattern(0xd4, 180), .private_data_len = 180};
	struct ends e;

	open_ends(&e, RDMA_PS_UDP);
	resolve(&e);
	make_qp(e.client);
	assert_int_equal(rdma_connect(e.client, &p), 0);
	e.server = expect(&e, e.server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	expect_data(&e, 0xd4, 180);
	make_qp(e.server);
	p.private_data = pattern(0xe5, 136);
	p.private_data_len = 136;
	p.qp_num = e.server->qp->qp_num;
	assert_int_equal(rdma_accept(e.server, &p), 0);
	expect(&e, e.client_channel, RDMA_CM_EVENT_ESTABLISHED);
	expect_data(&e, 0xe5, 136);
	assert_int_equal(e.told_ud.qp_num, e.server->qp->qp_num);
	assert_int_equal(e.told_ud.qkey, RDMA_UDP_QKEY);
	assert_true(e.told_ud.ah_attr.is_global);
	assert_memory_equal(&e.told_ud.ah_attr.grh.dgid, &id_of(e.client)->address.remote, sizeof(union ibv_gid));
	close_ends(&e);
}

static void what_is_no_group_is_not_joined(void **state)
{
	enum {
		ADDRESS = RDMA_CM_JOIN_MC_ATTR_ADDRESS,
		FLAGS = RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
	};
	static const struct {
		enum rdma_port_space ps;
		uint32_t ip, mask, flags;
		int error;
	} row[] = {
		{RDMA_PS_UDP, 0xef070707, ADDRESS | FLAGS, RDMA_MC_JOIN_FLAG_FULLMEMBER, 0},
		{RDMA_PS_UDP, 0xef070707, ADDRESS | FLAGS, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, 0},
		{RDMA_PS_UDP, 0x0a010101, ADDRESS | FLAGS, RDMA_MC_JOIN_FLAG_FULLMEMBER, EINVAL},
		{RDMA_PS_UDP, 0xef070707, ADDRESS | FLAGS, RDMA_MC_JOIN_FLAG_RESERVED, EINVAL},
		{RDMA_PS_UDP, 0xef070707, ADDRESS, RDMA_MC_JOIN_FLAG_FULLMEMBER, EINVAL},
		{RDMA_PS_UDP, 0xef070707, FLAGS, RDMA_MC_JOIN_FLAG_FULLMEMBER, EINVAL},
		{RDMA_PS_UDP, 0xef070707, ADDRESS | FLAGS | 4, RDMA_MC_JOIN_FLAG_FULLMEMBER, ENOTSUP},
		{RDMA_PS_TCP, 0xef070707, ADDRESS | FLAGS, RDMA_MC_JOIN_FLAG_FULLMEMBER, EINVAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(row[i].ip)};
		struct rdma_cm_join_mc_attr_ex a = {row[i].mask, row[i].flags, (struct sockaddr *)&group};
		struct ends e;

		open_ends(&e, row[i].ps);
		resolve(&e);
		errno = 0;
		assert_int_equal(rdma_join_multicast_ex(e.client, &a, NULL), row[i].error ? -1 : 0);
		assert_int_equal(errno, row[i].error);
		if (!row[i].error)
			expect(&e, e.client_channel, RDMA_CM_EVENT_MULTICAST_JOIN);
		close_ends(&e);
	}
}

/* ---- ports ---- */

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
		{.ip = INADDR_ANY, .error = EADDRINUSE},
		{.ip = INADDR_LOOPBACK + 1, .error = 0},
		{.ip = INADDR_LOOPBACK, .other_space = true, .error = 0},
		{.ip = INADDR_LOOPBACK, .reuse = true, .error = EADDRINUSE}, /* the other listens */
		{.ip = 0x08080808, .error = EADDRNOTAVAIL},
	};
	struct ends e;

	open_ends(&e, RDMA_PS_TCP);
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
	close_ends(&e);
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

	open_ends(&e, RDMA_PS_TCP);
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
	close_ends(&e);
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

	open_ends(&e, RDMA_PS_TCP);
	assert_int_equal(rdma_resolve_addr(e.client, (struct sockaddr *)&source, (struct sockaddr *)&e.address, 1000),
			 -1);
	assert_int_equal(errno, EINVAL);
	resolve(&e); /* and nothing has come of it */
	close_ends(&e);
}

/* The source does not matter: where no route leads nobody is found. */
static void where_no_route_leads_nobody_is_found(void **state)
{
	struct sockaddr_in source = loopback(0), to = loopback(7471);
	struct ends e;

	to.sin_addr.s_addr = htonl(0xc0000201);
	for (int bound = 0; bound < 2; bound++) {
		open_ends(&e, RDMA_PS_TCP);
		assert_int_equal(rdma_resolve_addr(e.client, bound ? (struct sockaddr *)&source : NULL,
						   (struct sockaddr *)&to, 1000),
				 -1);
		assert_int_equal(errno, ENETUNREACH);
		close_ends(&e);
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
	} row[] = {{false, 1, 0}, {true, 1, 0}, {false, 0, EADDRINUSE}, {true, 0, EADDRINUSE}};

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
		assert_int_equal(errno, row[i].error);
		if (!row[i].error)
			assert_int_equal(rdma_listen(id[1], 1), 0);
		for (int k = 0; k < 2; k++)
			assert_int_equal(rdma_destroy_id(id[k]), 0);
		rdma_destroy_event_channel(channel);
	}
}

static void options_are_checked(void **state)
{
	static const struct {
		enum rdma_port_space ps;
		int level, name;
		size_t size;
		int error;
	} row[] = {
		{RDMA_PS_TCP, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1, 0},
		{RDMA_PS_UDP, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1, 0},
		{RDMA_PS_TCP, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 0, EINVAL},
		{RDMA_PS_TCP, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4, EINVAL},
		{RDMA_PS_TCP, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1, 0},
		{RDMA_PS_TCP, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 4, EINVAL},
		{RDMA_PS_UDP, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1, EINVAL},
		{RDMA_PS_TCP, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4, 0},
		{RDMA_PS_TCP, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 3, EINVAL},
		{RDMA_PS_TCP, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 8, EINVAL},
		{RDMA_PS_TCP, RDMA_OPTION_ID, 77, 4, ENOSYS},
		{RDMA_PS_TCP, 77, RDMA_OPTION_ID_TOS, 4, ENOSYS},
	};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	uint64_t value = 8 | 8ull << 56; /* in either order of bytes */

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct rdma_cm_id *id;

		assert_int_equal(rdma_create_id(channel, &id, NULL, row[i].ps), 0);
		errno = 0;
		assert_int_equal(rdma_set_option(id, row[i].level, row[i].name, &value, row[i].size),
				 row[i].error ? -1 : 0);
		assert_int_equal(errno, row[i].error);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
}

/* ---- ids and channels ---- */

static void an_id_moves_with_its_events(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct ends e;

	open_ends(&e, RDMA_PS_TCP);
	assert_int_equal(rdma_resolve_addr(e.client, NULL, (struct sockaddr *)&e.address, 1000), 0);
	assert_int_equal(rdma_migrate_id(e.client, other), 0);
	assert_ptr_equal(e.client->channel, other);
	assert_ptr_equal(expect(&e, other, RDMA_CM_EVENT_ADDR_RESOLVED), e.client);
	assert_int_equal(rdma_migrate_id(e.client, e.client_channel), 0);
	rdma_destroy_event_channel(other);
	close_ends(&e);
}

/* Several events wait, and all stay in their order. */
static void an_id_may_move_to_where_it_is(void **state)
{
	struct ends e;

	open_ends(&e, RDMA_PS_TCP);
	assert_int_equal(rdma_resolve_addr(e.client, NULL, (struct sockaddr *)&e.address, 1000), 0);
	while (id_of(e.client)->state != ID_ADDRESS_RESOLVED)
		sched_yield();
	assert_int_equal(rdma_resolve_route(e.client, 1000), 0);
	assert_int_equal(rdma_migrate_id(e.client, e.client_channel), 0);
	expect(&e, e.client_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	expect(&e, e.client_channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	close_ends(&e);
}

static void *disconnect(void *id)
{
	return (void *)(intptr_t)(rdma_disconnect(id) ? errno : 0);
}

/* The device goes, or the process ends, while another thread is about to disconnect. */
NO_LOCK_ANALYSIS static void a_connection_may_end_while_it_is_disconnected(void **state)
{
	pthread_t thread;
	struct ends e;
	void *error;

	open_ends(&e, RDMA_PS_TCP);
	ask(&e, 1);
	accept_it(&e);
	expect(&e, e.server_channel, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_qp(e.client); /* so the lock is all that the thread waits for */
	lock_take(&cm.lock);
	assert_int_equal(pthread_create(&thread, NULL, disconnect, e.client), 0);
	while (!lock_is_wanted(&cm.lock))
		sched_yield();
	ids_release_all();
	lock_drop(&cm.lock);
	pthread_join(thread, &error);
	assert_int_equal((intptr_t)error, EINVAL);
	close_ends(&e);
}

/* The application has its own QP, and says itself when it is ready. */
static void an_application_answers_itself(void **state)
{
	struct rdma_conn_param p = {.qp_num = 0x123, .responder_resources = 1, .initiator_depth = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct ends e;
	int mask;

	open_ends(&e, RDMA_PS_TCP);
	resolve(&e);
	assert_int_equal(rdma_establish(e.client), -1);
	assert_int_equal(rdma_connect(e.client, &p), 0);
	e.server = expect(&e, e.server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(e.told.qp_num, 0x123);
	p.qp_num = 0x456;
	assert_int_equal(rdma_accept(e.server, &p), 0);
	expect(&e, e.client_channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(e.told.qp_num, 0x456);
	assert_int_equal(rdma_init_qp_attr(e.client, &attr, &mask), 0);
	assert_int_equal(attr.dest_qp_num, 0x456);
	assert_true(mask & IBV_QP_DEST_QPN && mask & IBV_QP_RQ_PSN && mask & IBV_QP_AV);
	assert_int_equal(rdma_establish(e.client), 0);
	expect(&e, e.server_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_establish(e.client), -1);
	close_ends(&e);
}

/* The peer's message that ends it has come. */
static void await_end(struct rdma_cm_id *id)
{
	enum connection_state state;

	do {
		lock_take(&cm.lock);
		state = id_of(id)->connection->state;
		lock_drop(&cm.lock);
		sched_yield();
	} while (state == CM_REQ_RECEIVED);
}

static bool is_silent(struct rdma_event_channel *channel)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

static void an_id_may_go_at_any_time(void **state)
{
	for (int step = 0; step < 4; step++) {
		struct rdma_conn_param p = {.qp_num = 1};
		struct ends e;

		open_ends(&e, RDMA_PS_TCP);
		if (step > 0)
			resolve(&e);
		if (step > 1)
			assert_int_equal(rdma_connect(e.client, &p), 0);
		if (step > 2)
			e.server = expect(&e, e.server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		assert_int_equal(rdma_destroy_id(e.client), 0);
		e.client = NULL;
		if (step > 2) { /* as by the kernel: of an id that it has not accepted the application hears nothing */
			await_end(e.server);
			assert_true(is_silent(e.server_channel));
			assert_int_equal(rdma_accept(e.server, &p), -1);
			assert_int_equal(errno, EINVAL);
		}
		close_ends(&e);
	}
}

/* Each row: what is asked for, and the address, port space and QP type that come of it. */
static void names_become_addresses(void **state)
{
	static const struct {
		const char *node, *service;
		struct rdma_addrinfo hints;
		int result, error;
		const char *address;
		uint16_t port;
		enum rdma_port_space ps;
		enum ibv_qp_type type;
	} rows[] = {
		{"127.0.0.2", "77", {0}, 0, 0, "127.0.0.2", 77, RDMA_PS_TCP, IBV_QPT_RC},
		{"127.0.0.2", "77", {.ai_port_space = RDMA_PS_UDP}, 0, 0, "127.0.0.2", 77, RDMA_PS_UDP, IBV_QPT_UD},
		{"127.0.0.2", "77", {.ai_qp_type = IBV_QPT_UD}, 0, 0, "127.0.0.2", 77, RDMA_PS_UDP, IBV_QPT_UD},
		{"127.0.0.2", "77", {.ai_flags = RAI_NUMERICHOST}, 0, 0, "127.0.0.2", 77, RDMA_PS_TCP, IBV_QPT_RC},
		{"127.0.0.2", NULL, {.ai_flags = RAI_PASSIVE}, 0, 0, "127.0.0.2", 0, RDMA_PS_TCP, IBV_QPT_RC},
		{NULL,
		 "77",
		 {.ai_flags = RAI_PASSIVE, .ai_family = AF_INET},
		 0,
		 0,
		 "0.0.0.0",
		 77,
		 RDMA_PS_TCP,
		 IBV_QPT_RC},
		{NULL, "77", {.ai_family = AF_INET}, 0, 0, "127.0.0.1", 77, RDMA_PS_TCP, IBV_QPT_RC},
		{"no.number", "77", {.ai_flags = RAI_NUMERICHOST}, EAI_NONAME, ENODATA},
		{"127.0.0.2", "77", {.ai_family = AF_UNIX}, EAI_FAMILY, EINVAL},
		{"127.0.0.2", "77", {.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_UD}, EAI_SOCKTYPE, EINVAL},
		{"127.0.0.2", "no service", {.ai_port_space = RDMA_PS_TCP}, EAI_SERVICE, ENODATA},
	};
	struct rdma_addrinfo *found;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool is_passive = rows[i].hints.ai_flags & RAI_PASSIVE;
		int result = rdma_getaddrinfo(rows[i].node, rows[i].service, &rows[i].hints, &found);
		const struct sockaddr_in *in;
		char text[INET_ADDRSTRLEN];

		assert_int_equal(result, rows[i].result);
		if (result) {
			assert_int_equal(errno, rows[i].error);
			continue;
		}
		assert_int_equal(found->ai_flags, is_passive ? RAI_PASSIVE : 0);
		in = (const struct sockaddr_in *)(is_passive ? found->ai_src_addr : found->ai_dst_addr);
		assert_null(is_passive ? found->ai_dst_addr : found->ai_src_addr);
		assert_int_equal(in->sin_family, AF_INET);
		assert_string_equal(inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)), rows[i].address);
		assert_int_equal(ntohs(in->sin_port), rows[i].port);
		assert_int_equal(found->ai_port_space, rows[i].ps);
		assert_int_equal(found->ai_qp_type, rows[i].type);
		rdma_freeaddrinfo(found);
	}
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &found), -1);
	assert_int_equal(errno, EINVAL);
}

/* rping's thread asks for events until the program has ended; some seconds later, that is. */
static void who_asks_a_channel_that_is_gone_is_told(void **state)
{
	struct rdma_event_channel *channel[100];
	struct rdma_cm_event *event;

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(channel); i++)
			assert_non_null(channel[i] = rdma_create_event_channel());
		for (size_t i = 0; i < ARRAY_SIZE(channel); i++) {
			assert_true(channel[i]->fd >= 0);
			rdma_destroy_event_channel(channel[i]);
		}
	}
	rdma_destroy_event_channel(channel[99]); /* a second time does nothing */
	assert_int_equal(rdma_get_cm_event(channel[99], &event), -1);
	assert_int_equal(errno, EBADF);
}

static uint64_t argument(const struct rdma_cm_event *event)
{
	uint64_t arg;

	memcpy(&arg, &event->param, sizeof(arg));
	return arg;
}

static void a_program_writes_events_of_its_own(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(
			rdma_write_cm_event(id, (enum rdma_cm_event_type)EVENT_USER, (int)i - 1, UINT64_MAX - i), 0);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		assert_ptr_equal(event->id, id);
		assert_string_equal(rdma_event_str(event->event), "RDMA_CM_EVENT_USER");
		assert_int_equal(event->status, (int)i - 1);
		assert_true(argument(event) == UINT64_MAX - i);
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_write_cm_event(NULL, (enum rdma_cm_event_type)EVENT_USER, 0, 0), -1);
	assert_int_equal(errno, EINVAL);
	/* one that nobody fetches goes with the id */
	assert_int_equal(rdma_write_cm_event(id, (enum rdma_cm_event_type)EVENT_USER, 0, 0), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void an_id_keeps_the_addresses_that_it_resolved(void **state)
{
	struct rdma_addrinfo *found, by_administrator = {.ai_flags = FLAG_SA};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *sync;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_query_addrinfo(id, &found), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, NULL, "77", &by_administrator), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(rdma_resolve_addrinfo(id, NULL, NULL, NULL), -1);
	assert_int_equal(errno, EINVAL);

	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.2", "77", NULL), 0);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.3", "77", NULL), -1);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
	assert_int_equal(event->status, 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_query_addrinfo(id, &found), 0);
	assert_int_equal(((struct sockaddr_in *)found->ai_dst_addr)->sin_addr.s_addr, inet_addr("127.0.0.2"));
	rdma_freeaddrinfo(found);
	assert_int_equal(rdma_query_addrinfo(id, &found), -1);

	/* without a channel it is there when the call returns; what is not fetched goes with the id */
	assert_int_equal(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addrinfo(sync, "127.0.0.2", "77", NULL), 0);
	assert_int_equal(rdma_query_addrinfo(sync, &found), 0);
	rdma_freeaddrinfo(found);
	assert_int_equal(rdma_resolve_addrinfo(sync, "127.0.0.2", "77", NULL), 0);
	assert_int_equal(rdma_destroy_id(sync), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_comes_and_goes),
		cmocka_unit_test(each_end_says_with_which_psn_the_other_begins),
		cmocka_unit_test(queue_pairs_may_be_of_another_type_than_their_id),
		cmocka_unit_test(a_refusal_says_why),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(what_is_too_long_or_too_early_is_refused),
		cmocka_unit_test(an_answer_that_is_too_long_rejects),
		cmocka_unit_test(a_probe_is_as_long_as_a_packet_must_be),
		cmocka_unit_test(a_datagram_service_is_found),
		cmocka_unit_test(what_is_no_group_is_not_joined),
		cmocka_unit_test(a_port_has_one_user_unless_they_agree),
		cmocka_unit_test(what_could_not_be_bound_is_bound_nowhere),
		cmocka_unit_test(an_id_at_the_loopback_has_a_device_if_that_is_asked_for),
		cmocka_unit_test(families_of_source_and_destination_are_one),
		cmocka_unit_test(where_no_route_leads_nobody_is_found),
		cmocka_unit_test(who_agrees_shares_a_port),
		cmocka_unit_test(a_port_is_shared_from_now_on),
		cmocka_unit_test(both_families_listen_at_one_port),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(an_id_moves_with_its_events),
		cmocka_unit_test(an_id_may_move_to_where_it_is),
		cmocka_unit_test(a_connection_may_end_while_it_is_disconnected),
		cmocka_unit_test(an_application_answers_itself),
		cmocka_unit_test(an_id_may_go_at_any_time),
		cmocka_unit_test(names_become_addresses),
		cmocka_unit_test(who_asks_a_channel_that_is_gone_is_told),
		cmocka_unit_test(a_program_writes_events_of_its_own),
		cmocka_unit_test(an_id_keeps_the_addresses_that_it_resolved),
	};

	netns_enter();
	setenv("UROCE_DEVICES", "lo", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
