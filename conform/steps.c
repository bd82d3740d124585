/* SPDX-License-Identifier: BSD-2-Clause */
/* Steps of a connection by librdmacm: which come in which order, what each leads to, and what is refused between them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "conform.h"
#include "connect.h"
#include "states.h"

#define QPN 0x17 /* of no queue pair: the program has its own way to make one */

/* As far as the reply, by a client without a queue pair. */
static struct two answered(void)
{
	struct two t = {.listener = NULL};
	struct cm_call c;

	make_qp(near, IBV_QPT_RC);
	t.listener = listen_at(far, RDMA_PS_TCP, &t.port);
	t.client = resolve_at(RDMA_PS_TCP, address_at(far, t.port));
	c = connect_call(&t, 0);
	c.param.qp_num = QPN;
	expect_errno("rdma_connect", cm_do(near, &c), 0);
	c = event(far, RDMA_CM_EVENT_CONNECT_REQUEST);
	expect("qp_num of the request", c.param.qp_num, QPN);
	t.server = c.id;
	accept_with(&t, 0);
	event(near, RDMA_CM_EVENT_CONNECT_RESPONSE);
	return t;
}

static void response(void)
{
	struct two t = answered();

	expect_errno("rdma_establish", simple(near, CM_ESTABLISH, t.client), 0);
	event(far, RDMA_CM_EVENT_ESTABLISHED);
}

static void response_rejected(void)
{
	struct two t = answered();
	struct cm_call e;

	expect_errno("rdma_reject", simple(near, CM_REJECT, t.client), 0);
	e = event(far, RDMA_CM_EVENT_REJECTED);
	expect("status", e.status, 28);
}

static void connect_error(void)
{
	struct two t = make_two(RDMA_PS_TCP);

	request(&t, 0);
	bring(&t.a, &t.a, IBV_QPS_INIT, IBV_QPS_ERR);
	accept_with(&t, 0);
	event(near, RDMA_CM_EVENT_CONNECT_ERROR);
}

static void late_accept(void)
{
	struct two t = make_two(RDMA_PS_TCP);

	request(&t, 0);
	usleep(300000);
	accept_with(&t, 0);
	event(near, RDMA_CM_EVENT_ESTABLISHED);
	event(far, RDMA_CM_EVENT_ESTABLISHED);
}

static void late_reject(void)
{
	struct two t = make_two(RDMA_PS_TCP);

	request(&t, 0);
	usleep(300000);
	expect_errno("rdma_reject", simple(far, CM_REJECT, t.server), 0);
	event(near, RDMA_CM_EVENT_REJECTED);
}

static void client_gives_up(void)
{
	struct two t = make_two(RDMA_PS_TCP);
	struct cm_call c;

	request(&t, 0);
	expect_errno("rdma_destroy_id", simple(near, CM_DESTROY, t.client), 0);
	usleep(20000);
	c = call_of(CM_ACCEPT, t.server);
	c.param.responder_resources = c.param.initiator_depth = 1;
	if (!cm_do(far, &c)) /* the reject was not there yet */
		event(far, RDMA_CM_EVENT_REJECTED);
}

static void timewait(void)
{
	struct two t = make_connected();

	expect_errno("rdma_disconnect", simple(near, CM_DISCONNECT, t.client), 0);
	event(far, RDMA_CM_EVENT_DISCONNECTED);
	expect_errno("rdma_disconnect", simple(far, CM_DISCONNECT, t.server), 0);
	event(near, RDMA_CM_EVENT_DISCONNECTED);
	event(near, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	event(far, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

static struct rdma_cm_id *bound(void)
{
	struct rdma_cm_id *id = make_id(near, RDMA_PS_TCP);

	expect_errno("rdma_bind_addr", bind_at(near, id, address_at(near, 0)), 0);
	return id;
}

static void too_early(void)
{
	struct two t = {.client = bound()};
	struct cm_call c = connect_call(&t, 0), accept = connect_call(&t, 0);

	accept.verb = CM_ACCEPT;
	expect_errno("rdma_connect", cm_do(near, &c), EINVAL);
	expect_errno("rdma_resolve_route", simple(near, CM_ROUTE, t.client), EINVAL);
	expect_errno("rdma_accept", cm_do(near, &accept), EINVAL);
	expect_errno("rdma_reject", simple(near, CM_REJECT, t.client), EINVAL);
	expect_errno("rdma_disconnect", simple(near, CM_DISCONNECT, t.client), EINVAL);
}

static void connected_twice(void)
{
	struct two t = make_connected();
	struct cm_call c = connect_call(&t, 0);

	expect_errno("rdma_connect", cm_do(near, &c), EINVAL);
	expect_errno("rdma_resolve_route", simple(near, CM_ROUTE, t.client), EINVAL);
	expect_errno("rdma_listen", simple(near, CM_LISTEN, t.client), EINVAL);
}

static void listens_twice(void)
{
	struct rdma_cm_id *id = bound();

	expect_errno("rdma_listen", simple(near, CM_LISTEN, id), 0);
	expect_errno("rdma_listen again", simple(near, CM_LISTEN, id), EINVAL);
}

static void listener_is_destroyed(void)
{
	struct two t = make_two(RDMA_PS_TCP);
	struct cm_call c = connect_call(&t, 0), e;

	expect_errno("rdma_connect", cm_do(near, &c), 0);
	usleep(20000); /* the request is an event that nobody fetches */
	expect_errno("rdma_destroy_id", simple(far, CM_DESTROY, t.listener), 0);
	e = event(near, RDMA_CM_EVENT_REJECTED);
	if (e.status != 28 && e.status != 8)
		wrong("status is %d", e.status);
}

static void joins(void)
{
	struct rdma_cm_id *id = make_id(near, RDMA_PS_UDP);
	struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef4d0107)}; /* 239.77.1.7 */
	struct cm_call c = call_of(CM_ADDRESS, id), e;

	if (address_at(near, 0).ss_family != AF_INET)
		lacking("an IPv4 address");
	c.address = address_at(near, 7);
	expect_errno("rdma_resolve_addr", cm_do(near, &c), 0);
	event(near, RDMA_CM_EVENT_ADDR_RESOLVED);
	queue_pair(near, id, RDMA_PS_UDP);
	c.verb = CM_JOIN;
	memcpy(&c.address, &group, sizeof(group));
	expect_errno("rdma_join_multicast", cm_do(near, &c), 0);
	e = event(near, RDMA_CM_EVENT_MULTICAST_JOIN);
	expect("qp_num", e.ud.qp_num, 0xffffff);
	expect("qkey", e.ud.qkey, RDMA_UDP_QKEY);
	expect("is_global", e.ud.ah_attr.is_global, 1);
	c.verb = CM_LEAVE;
	expect_errno("rdma_leave_multicast", cm_do(near, &c), 0);
	expect_errno("rdma_leave_multicast again", cm_do(near, &c), EADDRNOTAVAIL);
}

static void joins_late(void)
{
	struct cm_call c = call_of(CM_JOIN, resolve_at(RDMA_PS_UDP, address_at(near, 7)));
	struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef4d0107)};

	memcpy(&c.address, &group, sizeof(group));
	expect_errno("rdma_join_multicast", cm_do(near, &c), EINVAL);
}

static void nobody_has_the_address(void)
{
	struct rdma_cm_id *id = make_id(near, RDMA_PS_TCP);
	struct sockaddr_storage storage = address_at(near, 9);
	struct sockaddr_in *a = (struct sockaddr_in *)&storage;
	struct cm_call c = call_of(CM_ADDRESS, id), e;

	if (storage.ss_family != AF_INET || ntohl(a->sin_addr.s_addr) >> 24 == 127)
		lacking("an IPv4 network with other hosts");
	a->sin_addr.s_addr ^= htonl(0xb9); /* another host of the network, if it has one */
	c.address = storage;
	c.value = 1000;
	expect_errno("rdma_resolve_addr", cm_do(near, &c), 0);
	e = event(near, RDMA_CM_EVENT_ADDR_ERROR);
	if (e.status != -ETIMEDOUT && e.status != -EHOSTUNREACH)
		wrong("status is %d", e.status);
}

static const struct row rows[] = {
	{"event/response", "rdma_get_cm_event(3); rdma_establish(3)", "connect without a queue pair; accept; establish",
	 "CONNECT_RESPONSE; ESTABLISHED", response},
	{"event/response-rejected", "IBTA 12.9.8.3; Linux core/cma.c: rdma_reject()",
	 "connect without a queue pair; accept; the client rejects", "REJECTED, status 28", response_rejected},
	{"event/connect-error", "rdma_get_cm_event(3)", "connect; the client's queue pair is moved to err; accept",
	 "CONNECT_ERROR at the client", connect_error},
	{"event/late-accept", "IBTA 12.9.8.4; Linux core/cma.c: cma_ib_req_handler(), MRA", "accept after 0.3 s",
	 "ESTABLISHED at both", late_accept},
	{"event/late-reject", "IBTA 12.9.8.4", "reject after 0.3 s", "REJECTED", late_reject},
	{"event/gives-up", "Linux core/cm.c: cm_destroy_id(), IB_CM_REQ_SENT",
	 "connect; the client is destroyed; accept", "an error, or REJECTED", client_gives_up},
	{"event/timewait-exit", "Linux core/cma.c: cma_ib_handler(), IB_CM_TIMEWAIT_EXIT", "disconnect at both ends",
	 "TIMEWAIT_EXIT at both", timewait},
	{"event/listener-destroyed", "Linux core/cma.c: cma_destroy_id(), cma_cancel_listens()",
	 "connect; the listener is destroyed", "REJECTED, 28 or 8", listener_is_destroyed},
	{"event/join", "rdma_join_multicast(3); Linux core/cma.c: cma_make_mc_event()", "join 239.77.1.7, leave, leave",
	 "MULTICAST_JOIN with QPN 0xffffff and a Q_Key; success; EADDRNOTAVAIL", joins},
	{"event/address-error", "Linux core/addr.c: process_one_req()",
	 "resolve an address of the network that nobody has", "ADDR_ERROR, ETIMEDOUT or EHOSTUNREACH",
	 nobody_has_the_address},
	{"order/too-early", "Linux core/cma.c: cma_comp(), cma_comp_exch()",
	 "connect, resolve a route, accept, reject, disconnect after bind", "EINVAL", too_early},
	{"order/connected", "Linux core/cma.c: cma_comp_exch(); rdma_listen()",
	 "connect, resolve a route, listen when connected", "EINVAL", connected_twice},
	{"order/join", "Linux core/cma.c: rdma_join_multicast()", "join a group when the route is resolved", "EINVAL",
	 joins_late},
	{"order/listens", "Linux core/cma.c: rdma_listen(), rdma_bind_addr()", "listen twice", "EINVAL", listens_twice},
	{0},
};

struct group steps_group = {"steps", .rows = rows};
