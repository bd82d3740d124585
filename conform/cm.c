/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management by librdmacm: events, their order and status, private data, rejects, states, addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"
#include "connect.h"
#include "states.h"

#define REQ_DATA 56 /* of RDMA_PS_TCP: Linux core/cma.c, cma_user_data_offset() */
#define WAIT	 ((int)options.seconds * 400)

struct cm_call call_of(enum cm_verb verb, struct rdma_cm_id *id)
{
	return (struct cm_call){.verb = verb, .id = id, .space = RDMA_PS_TCP, .value = 2000};
}

int simple(struct end *e, enum cm_verb verb, struct rdma_cm_id *id)
{
	struct cm_call c = call_of(verb, id);

	return cm_do(e, &c);
}

struct rdma_cm_id *make_id(struct end *e, enum rdma_port_space space)
{
	struct cm_call c = call_of(CM_CREATE, NULL);

	c.space = space;
	expect_errno("rdma_create_id", cm_do(e, &c), 0);
	return c.id;
}

struct sockaddr_storage address_at(const struct end *e, uint16_t port)
{
	struct sockaddr_storage storage = {0};

	if (!memcmp(e->gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12)) {
		struct sockaddr_in *a = (struct sockaddr_in *)&storage;

		a->sin_family = AF_INET;
		a->sin_port = htons(port);
		memcpy(&a->sin_addr, e->gid.raw + 12, 4);
	} else {
		struct sockaddr_in6 *a = (struct sockaddr_in6 *)&storage;

		if (e->gid.raw[0] == 0xfe)
			lacking("a GID that is an address without a scope");
		a->sin6_family = AF_INET6;
		a->sin6_port = htons(port);
		memcpy(&a->sin6_addr, e->gid.raw, 16);
	}
	return storage;
}

int bind_at(struct end *e, struct rdma_cm_id *id, struct sockaddr_storage address)
{
	struct cm_call c = call_of(CM_BIND, id);

	c.address = address;
	return cm_do(e, &c);
}

struct cm_call event(struct end *e, enum rdma_cm_event_type expected)
{
	struct cm_call c = call_of(CM_EVENT, NULL);

	c.value = WAIT;
	if (cm_do(e, &c))
		wrong("no event at the %s end, expected %s", e == near ? "near" : "far", rdma_event_str(expected));
	if (c.event != expected)
		wrong("the event at the %s end is %s (%d), expected %s", e == near ? "near" : "far",
		      rdma_event_str(c.event), c.status, rdma_event_str(expected));
	return c;
}

static void no_event(struct end *e)
{
	struct cm_call c = call_of(CM_EVENT, NULL);

	c.value = 10;
	if (!cm_do(e, &c))
		wrong("another event: %s (%d)", rdma_event_str(c.event), c.status);
}

struct rdma_cm_id *listen_at(struct end *e, enum rdma_port_space space, uint16_t *port)
{
	struct rdma_cm_id *id = make_id(e, space);
	struct cm_call c = call_of(CM_PORT, id);

	expect_errno("rdma_bind_addr", bind_at(e, id, address_at(e, 0)), 0);
	expect_errno("rdma_listen", simple(e, CM_LISTEN, id), 0);
	cm_do(e, &c);
	*port = c.port;
	return id;
}

struct rdma_cm_id *resolve_at(enum rdma_port_space space, struct sockaddr_storage address)
{
	struct rdma_cm_id *id = make_id(near, space);
	struct cm_call c = call_of(CM_ADDRESS, id);

	c.address = address;
	expect_errno("rdma_resolve_addr", cm_do(near, &c), 0);
	event(near, RDMA_CM_EVENT_ADDR_RESOLVED);
	expect_errno("rdma_resolve_route", simple(near, CM_ROUTE, id), 0);
	event(near, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

struct qp queue_pair(struct end *e, struct rdma_cm_id *id, enum rdma_port_space space)
{
	struct cm_call c = call_of(CM_QP, id);
	int error;

	c.space = space;
	error = cm_do(e, &c);
	if (error)
		lacking("queue pairs of librdmacm: %s", errno_name(error));
	return (struct qp){.end = e,
			   .ptr = c.qp,
			   .type = space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC,
			   .scq = c.scq,
			   .rcq = c.rcq};
}

struct two make_two(enum rdma_port_space space)
{
	struct two t = {0};

	make_qp(near, space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC);
	t.listener = listen_at(far, space, &t.port);
	t.client = resolve_at(space, address_at(far, t.port));
	t.a = queue_pair(near, t.client, space);
	return t;
}

struct cm_call connect_call(const struct two *t, uint8_t length)
{
	struct cm_call c = call_of(CM_CONNECT, t->client);

	c.param = (struct rdma_conn_param){.responder_resources = 1,
					   .initiator_depth = 1,
					   .retry_count = 5,
					   .rnr_retry_count = 6,
					   .private_data_len = length};
	for (int i = 0; i < length; i++)
		c.data[i] = (uint8_t)(i + 1);
	return c;
}

struct cm_call request(struct two *t, uint8_t length)
{
	struct cm_call c = connect_call(t, length), e;

	expect_errno("rdma_connect", cm_do(near, &c), 0);
	e = event(far, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (e.listener != t->listener)
		wrong("listen_id of the request is another id");
	t->server = e.id;
	return e;
}

void accept_with(struct two *t, uint8_t length)
{
	struct cm_call c = call_of(CM_ACCEPT, t->server);

	t->b = queue_pair(far, t->server, RDMA_PS_TCP);
	c.param = (struct rdma_conn_param){
		.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 6, .private_data_len = length};
	for (int i = 0; i < length; i++)
		c.data[i] = (uint8_t)(i + 101);
	expect_errno("rdma_accept", cm_do(far, &c), 0);
}

struct two make_connected(void)
{
	struct two t = make_two(RDMA_PS_TCP);

	request(&t, 0);
	accept_with(&t, 0);
	event(near, RDMA_CM_EVENT_ESTABLISHED);
	event(far, RDMA_CM_EVENT_ESTABLISHED);
	return t;
}

static void connects(void)
{
	struct two t = make_connected();
	struct ibv_qp_attr attr;

	expect_errno("ibv_query_qp", query(&t.a, &attr), 0);
	expect("the state", attr.qp_state, IBV_QPS_RTS);
	expect("retry_cnt", attr.retry_cnt, 5);
	expect("rnr_retry", attr.rnr_retry, 6);
	expect_errno("ibv_query_qp", query(&t.b, &attr), 0);
	expect("the server's state", attr.qp_state, IBV_QPS_RTS);
	expect("min_rnr_timer", attr.min_rnr_timer, 0);
	no_event(near);
	no_event(far);
}

static void expect_data(const struct cm_call *e, int length, int first)
{
	if (e->data_length < length)
		wrong("private_data_len is %d, of %d", e->data_length, length);
	for (int i = 0; i < length; i++)
		if (e->data[i] != first + i)
			wrong("byte %d of the private data is %u", i, e->data[i]);
}

static void private_data(uint8_t length)
{
	struct two t = make_two(RDMA_PS_TCP);
	struct cm_call e = request(&t, length);

	expect_data(&e, length, 1);
	expect("responder_resources", e.param.responder_resources, 1);
	expect("initiator_depth", e.param.initiator_depth, 1);
	accept_with(&t, length);
	e = event(near, RDMA_CM_EVENT_ESTABLISHED);
	expect_data(&e, length, 101);
}

static void data_of_1(void)
{
	private_data(1);
}

static void data_of_56(void)
{
	private_data(REQ_DATA);
}

static void too_much_data(void)
{
	struct two t = make_two(RDMA_PS_TCP);
	struct cm_call c = connect_call(&t, REQ_DATA + 1);

	expect_errno("rdma_connect", cm_do(near, &c), EINVAL);
}

static void rejects(void)
{
	struct two t = make_two(RDMA_PS_TCP);
	struct cm_call c, e;

	request(&t, 4);
	c = call_of(CM_REJECT, t.server);
	c.param.private_data_len = 20;
	for (int i = 0; i < 20; i++)
		c.data[i] = (uint8_t)(i + 7);
	expect_errno("rdma_reject", cm_do(far, &c), 0);
	e = event(near, RDMA_CM_EVENT_REJECTED);
	expect("status", e.status, 28);
	expect_data(&e, 20, 7);
}

static void nobody_listens(void)
{
	struct two t = {.client = NULL};
	struct cm_call c, e;

	make_qp(near, IBV_QPT_RC);
	t.listener = listen_at(far, RDMA_PS_TCP, &t.port);
	expect_errno("rdma_destroy_id", simple(far, CM_DESTROY, t.listener), 0);
	t.client = resolve_at(RDMA_PS_TCP, address_at(far, t.port));
	queue_pair(near, t.client, RDMA_PS_TCP);
	c = connect_call(&t, 0);
	expect_errno("rdma_connect", cm_do(near, &c), 0);
	e = event(near, RDMA_CM_EVENT_REJECTED);
	expect("status", e.status, 8);
}

static void request_is_destroyed(void)
{
	struct two t = make_two(RDMA_PS_TCP);

	request(&t, 0);
	expect_errno("rdma_destroy_id", simple(far, CM_DESTROY, t.server), 0);
	event(near, RDMA_CM_EVENT_REJECTED);
}

void expect_in_error(struct qp *qp)
{
	struct ibv_qp_attr attr;

	expect_errno("ibv_query_qp", query(qp, &attr), 0);
	if (attr.qp_state != IBV_QPS_ERR)
		wrong("the %s queue pair is in %s", qp->end == near ? "near" : "far", state_name(attr.qp_state));
}

static void disconnects(bool by_server)
{
	struct two t = make_connected();
	struct end *first = by_server ? far : near, *second = by_server ? near : far;

	expect_errno("rdma_disconnect", simple(first, CM_DISCONNECT, by_server ? t.server : t.client), 0);
	event(second, RDMA_CM_EVENT_DISCONNECTED);
	expect_in_error(by_server ? &t.b : &t.a);
	expect_errno("rdma_disconnect", simple(second, CM_DISCONNECT, by_server ? t.client : t.server), 0);
	event(first, RDMA_CM_EVENT_DISCONNECTED);
	expect_in_error(by_server ? &t.a : &t.b);
}

static void client_disconnects(void)
{
	disconnects(false);
}

static void server_disconnects(void)
{
	disconnects(true);
}

static void peer_is_destroyed(void)
{
	struct two t = make_connected();

	expect_errno("rdma_destroy_id", simple(far, CM_DESTROY, t.server), 0);
	event(near, RDMA_CM_EVENT_DISCONNECTED);
}

static void data_flows(void)
{
	struct two t = make_connected();
	struct ibv_send_wr wr = {.wr_id = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	expect_errno("ibv_post_recv", post_receive_sges(&t.b, 4, NULL, 0), 0);
	expect_errno("ibv_post_send", post(&t.a, &wr), 0);
	expect_status(near, t.a.scq, 3, IBV_WC_SUCCESS);
	expect_status(far, t.b.rcq, 4, IBV_WC_SUCCESS);
}

static void bound_twice(void)
{
	struct rdma_cm_id *id = make_id(near, RDMA_PS_TCP);

	expect_errno("rdma_bind_addr", bind_at(near, id, address_at(near, 0)), 0);
	expect_errno("rdma_bind_addr again", bind_at(near, id, address_at(near, 0)), EINVAL);
}

static void not_ours(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	struct sockaddr_storage storage = {0};

	inet_pton(AF_INET, "203.0.113.77", &a.sin_addr); /* of no host: RFC 5737 */
	memcpy(&storage, &a, sizeof(a));
	expect_errno("rdma_bind_addr", bind_at(near, make_id(near, RDMA_PS_TCP), storage), EADDRNOTAVAIL);
}

static struct sockaddr_storage link_local(uint32_t scope)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_scope_id = scope};
	struct sockaddr_storage storage = {0};

	inet_pton(AF_INET6, "fe80::1234:5678", &a.sin6_addr);
	memcpy(&storage, &a, sizeof(a));
	return storage;
}

static void no_scope(void)
{
	expect_errno("rdma_bind_addr", bind_at(near, make_id(near, RDMA_PS_TCP), link_local(0)), EINVAL);
}

static void unknown_scope(void)
{
	expect_errno("rdma_bind_addr", bind_at(near, make_id(near, RDMA_PS_TCP), link_local(987654)), ENODEV);
}

static void port_in_use(void)
{
	struct rdma_cm_id *second = make_id(far, RDMA_PS_TCP);
	uint16_t port;
	int error;

	listen_at(far, RDMA_PS_TCP, &port);
	if (!port)
		wrong("the port is 0");
	error = bind_at(far, second, address_at(far, port));
	if (!error)
		error = simple(far, CM_LISTEN, second);
	expect_errno("a second listener", error, EADDRINUSE);
}

static void listen_unbound(void)
{
	struct rdma_cm_id *id = make_id(far, RDMA_PS_TCP);
	struct cm_call c = call_of(CM_PORT, id);

	expect_errno("rdma_listen", simple(far, CM_LISTEN, id), 0);
	cm_do(far, &c);
	if (!c.port)
		wrong("the port is 0");
}

static void without_event(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	int result;

	if (!channel)
		wrong("rdma_create_event_channel: %s", errno_name(errno));
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	errno = 0;
	result = rdma_get_cm_event(channel, &(struct rdma_cm_event *){NULL});
	rdma_destroy_event_channel(channel);
	expect("rdma_get_cm_event", result, -1);
	expect_errno("rdma_get_cm_event", errno, EAGAIN);
}

static void datagrams(void)
{
	struct two t = make_two(RDMA_PS_UDP);
	struct cm_call c = connect_call(&t, 8), e;

	expect_errno("rdma_connect", cm_do(near, &c), 0);
	e = event(far, RDMA_CM_EVENT_CONNECT_REQUEST);
	expect_data(&e, 8, 1);
	t.server = e.id;
	t.b = queue_pair(far, t.server, RDMA_PS_UDP);
	c = call_of(CM_ACCEPT, t.server);
	expect_errno("rdma_accept", cm_do(far, &c), 0);
	e = event(near, RDMA_CM_EVENT_ESTABLISHED);
	expect("qkey", (long)e.ud.qkey, RDMA_UDP_QKEY);
	if (!e.ud.qp_num)
		wrong("qp_num is 0");
	no_event(far);
}

static void datagrams_rejected(void)
{
	struct two t = make_two(RDMA_PS_UDP);
	struct cm_call c = connect_call(&t, 0);

	expect_errno("rdma_connect", cm_do(near, &c), 0);
	c = event(far, RDMA_CM_EVENT_CONNECT_REQUEST);
	expect_errno("rdma_reject", simple(far, CM_REJECT, c.id), 0);
	c = event(near, RDMA_CM_EVENT_UNREACHABLE);
	expect("status", c.status, 2);
}

static int option(int level, int name, int value)
{
	struct cm_call c = call_of(CM_OPTION, make_id(near, RDMA_PS_TCP));

	c.level = level;
	c.name = name;
	c.value = value;
	return cm_do(near, &c);
}

static void options_taken(void)
{
	expect_errno("TOS", option(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 32), 0);
	expect_errno("REUSEADDR", option(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	expect_errno("AFONLY", option(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1), 0);
	expect_errno("ACK_TIMEOUT", option(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 16), 0);
}

static void option_unknown(void)
{
	expect_errno("an option of the id", option(RDMA_OPTION_ID, 99, 1), ENOSYS);
	expect_errno("a level", option(77, 1, 1), ENOSYS);
}

static void two_events_one_request(void)
{
	struct two t = make_connected();
	struct rdma_cm_id *second = resolve_at(RDMA_PS_TCP, address_at(far, t.port));
	struct two other = t;

	other.client = second;
	other.a = queue_pair(near, second, RDMA_PS_TCP);
	request(&other, 0);
	accept_with(&other, 0);
	event(near, RDMA_CM_EVENT_ESTABLISHED);
	event(far, RDMA_CM_EVENT_ESTABLISHED);
	if (other.server == t.server)
		wrong("two requests have one id");
}

static void synchronous(void)
{
	struct rdma_cm_id *id = NULL;
	struct sockaddr_storage a = address_at(near, 7);

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		wrong("rdma_create_id: %s", errno_name(errno));
	errno = 0;
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 2000)) {
		int error = errno;

		rdma_destroy_id(id);
		wrong("rdma_resolve_addr: %s", errno_name(error));
	}
	if (!id->event || id->event->event != RDMA_CM_EVENT_ADDR_RESOLVED || !id->verbs) {
		rdma_destroy_id(id);
		wrong("there is no event in the id, or no device");
	}
	rdma_destroy_id(id);
}

static void migrates(void)
{
	struct rdma_event_channel *one = rdma_create_event_channel(), *two = rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;
	struct rdma_cm_event *e = NULL;
	struct sockaddr_storage a = address_at(near, 7);
	int error = rdma_create_id(one, &id, NULL, RDMA_PS_TCP) ?: rdma_migrate_id(id, two);

	expect("rdma_migrate_id", error, 0);
	expect("the channel is the new one", id->channel == two, 1);
	expect("rdma_resolve_addr", rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 2000), 0);
	expect("rdma_get_cm_event of the new channel", rdma_get_cm_event(two, &e), 0);
	expect("the event", e->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	rdma_ack_cm_event(e);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(two);
}

static const char cma[] = "rdma_cm(7); Linux core/cma.c: cma_ib_handler()";

static const struct row rows[] = {
	{"connect/events", cma, "resolve, connect, accept",
	 "each event once, in order; rts at both ends, retry counts as asked, min_rnr_timer 0", connects},
	{"connect/data-1", "rdma_connect(3): private_data", "connect and accept with a byte of private data",
	 "it arrives", data_of_1},
	{"connect/data-56", "Linux core/cma.c: cma_connect_ib(); rdma_connect(3)", "56 bytes each way", "they arrive",
	 data_of_56},
	{"connect/data-57", "Linux core/cma.c: cma_connect_ib()", "connect with 57 bytes", "EINVAL", too_much_data},
	{"connect/traffic", "rdma_cm(7)", "a SEND after ESTABLISHED", "it arrives", data_flows},
	{"connect/two", "rdma_listen(3)", "two clients of one listener", "each has an id of its own",
	 two_events_one_request},
	{"reject/consumer", "IBTA 12.6.7.2: 28; rdma_reject(3)", "reject with 20 bytes",
	 "REJECTED, status 28, the bytes", rejects},
	{"reject/no-listener", "IBTA 12.6.7.2: 8, invalid service ID", "connect to a port where nobody listens",
	 "REJECTED, status 8", nobody_listens},
	{"reject/destroyed", "Linux core/cm.c: cm_destroy_id()", "the id of a request is destroyed", "REJECTED",
	 request_is_destroyed},
	{"disconnect/client", "rdma_disconnect(3)", "the client disconnects, then the server",
	 "DISCONNECTED at both; err at both", client_disconnects},
	{"disconnect/server", "rdma_disconnect(3)", "the server disconnects, then the client",
	 "DISCONNECTED at both; err at both", server_disconnects},
	{"disconnect/destroyed", "Linux core/cm.c: cm_destroy_id(), DREQ", "a connected id is destroyed",
	 "DISCONNECTED at its peer", peer_is_destroyed},
	{"state/bound-twice", "Linux core/cma.c: rdma_bind_addr()", "bind an id twice", "EINVAL", bound_twice},
	{"state/no-event", "rdma_get_cm_event(3); read(2)",
	 "rdma_get_cm_event() of a non-blocking channel without an event", "EAGAIN", without_event},
	{"address/not-ours", "Linux core/addr.c: rdma_translate_ip()", "bind to an address of no interface",
	 "EADDRNOTAVAIL", not_ours},
	{"address/no-scope", "Linux core/cma.c: cma_check_linklocal()", "bind to fe80:: without a scope", "EINVAL",
	 no_scope},
	{"address/unknown-scope", "Linux core/addr.c: rdma_translate_ip()",
	 "bind to fe80:: with the scope of no interface", "ENODEV", unknown_scope},
	{"address/in-use", "Linux core/cma.c: cma_check_port()", "two listeners at one port", "EADDRINUSE",
	 port_in_use},
	{"address/unbound", "Linux core/cma.c: rdma_listen()", "listen with an id that is not bound",
	 "a port is chosen", listen_unbound},
	{"datagram/connect", "rdma_cm(7): RDMA_PS_UDP; rdma_get_cm_event(3)", "connect an id of RDMA_PS_UDP, accept",
	 "ESTABLISHED at the client only, with QPN and Q_Key", datagrams},
	{"datagram/reject", "Linux core/cma.c: cma_sidr_rep_handler(), IB_SIDR_REJECT", "reject an id of RDMA_PS_UDP",
	 "UNREACHABLE, status 2", datagrams_rejected},
	{"option/taken", "rdma_set_option(3)", "TOS, REUSEADDR, AFONLY, ACK_TIMEOUT", "success", options_taken},
	{"option/unknown", "Linux core/ucma.c: ucma_set_option_level()", "an option and a level that there are not",
	 "ENOSYS", option_unknown},
	{"id/synchronous", "rdma_create_id(3): no channel", "rdma_resolve_addr() of an id without a channel",
	 "the event is in the id when it returns", synchronous},
	{"id/migrate", "rdma_migrate_id(3)", "migrate an id, then resolve an address",
	 "the event is in the new channel", migrates},
	{0},
};

struct group cm_group = {"cm", .rows = rows};
