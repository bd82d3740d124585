/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cm/machine.h"
#include "link/udp.h"

enum {
	GUARD = 512,
	SMALL = 64,   /* bytes of the message that shows that a connection lives */
	RUNS = 10000, /* turns of the loop that come to an end */
	SERVICE = 7174,
};

extern struct machine cm;

static uint32_t managed; /* connections of the connection manager */
static _Alignas(4096) uint8_t memory[3][GUARD + WORLD_REGION + GUARD];
static const uint8_t fill[3] = {0x5a, 0xc3, 0xa5};

struct world world;

/* ---- once ---- */

static const unsigned all =
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static struct ibv_mr *make_region(int i, unsigned access)
{
	struct ibv_mr *mr = ibv_reg_mr(world.pd, memory[i] + GUARD, WORLD_REGION, (int)access);

	require(mr);
	return mr;
}

struct qp *world_make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {
		.send_cq = world.cq,
		.recv_cq = world.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(world.pd, &a);

	require(qp);
	return container_of(qp, struct qp, base);
}

static void to_state(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	require(!ibv_modify_qp(&qp->base, (struct ibv_qp_attr *)attr, mask | IBV_QP_STATE));
}

void world_connect(struct qp *qp, uint32_t peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = peer,
		.rq_psn = WORLD_PSN,
		.sq_psn = WORLD_PSN,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64, .dgid = world.port->link->gid}},
	};

	to_state(qp, &a,
		 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			 IBV_QP_MIN_RNR_TIMER);
	a.qp_state = IBV_QPS_RTS;
	to_state(qp, &a,
		 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

void world_begin_again(struct qp *qp)
{
	const struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = WORLD_QKEY, .qp_access_flags = all};
	bool is_ud = qp->transport == TRANSPORT_UD;

	to_state(qp, &reset, 0);
	to_state(qp, &init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	for (int i = 0; i < WORLD_RECEIVES; i++)
		world_post_receive(qp);
}

static void start_datagrams(struct qp *qp)
{
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR}, rts = {.qp_state = IBV_QPS_RTS, .sq_psn = WORLD_PSN};

	to_state(qp, &rtr, 0);
	to_state(qp, &rts, IBV_QP_SQ_PSN);
}

static struct rdma_cm_event *await(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	require(!rdma_get_cm_event(world.events, &e));
	if (e->event != type)
		fprintf(stderr, "%s, status %d\n", rdma_event_str(e->event), e->status);
	require(e->event == type);
	return e;
}

static struct rdma_cm_id *make_id(void)
{
	struct rdma_cm_id *id;

	require(!rdma_create_id(world.events, &id, NULL, RDMA_PS_TCP));
	return id;
}

static void give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {.send_cq = world.cq,
				     .recv_cq = world.cq,
				     .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
				     .qp_type = IBV_QPT_RC};

	require(!rdma_create_qp(id, world.pd, &a));
}

static void connect_managed(void)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(SERVICE), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_conn_param parameters = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct rdma_cm_event *e;

	world.events = rdma_create_event_channel();
	require(world.events);
	world.listener = make_id();
	require(!rdma_bind_addr(world.listener, (struct sockaddr *)&at) && !rdma_listen(world.listener, 4));
	world.id[0] = make_id();
	require(!rdma_resolve_addr(world.id[0], NULL, (struct sockaddr *)&at, 1000));
	rdma_ack_cm_event(await(RDMA_CM_EVENT_ADDR_RESOLVED));
	require(!rdma_resolve_route(world.id[0], 1000));
	rdma_ack_cm_event(await(RDMA_CM_EVENT_ROUTE_RESOLVED));
	give_qp(world.id[0]);
	require(!rdma_connect(world.id[0], &parameters));
	e = await(RDMA_CM_EVENT_CONNECT_REQUEST);
	world.id[1] = e->id;
	rdma_ack_cm_event(e);
	give_qp(world.id[1]);
	require(!rdma_accept(world.id[1], &parameters));
	rdma_ack_cm_event(await(RDMA_CM_EVENT_ESTABLISHED));
	rdma_ack_cm_event(await(RDMA_CM_EVENT_ESTABLISHED));
	require(!fcntl(world.events->fd, F_SETFL, O_NONBLOCK));
}

static void find_port(void)
{
	static const union ibv_gid here = {.raw = {[10] = 0xff, 0xff, 127, [15] = 1}};

	world.loop = loop_of(world.qp[WORLD_A]);
	for (uint32_t i = 0; i < world.loop->ports; i++)
		if (!memcmp(&world.loop->port[i]->link->gid, &here, sizeof(here)))
			world.port = world.loop->port[i];
	require(world.port);
}

/* This process's own queue pairs would use shared memory. */
static void forbid_shared_memory(void)
{
	struct loop *l = loop_of(world.qp[WORLD_A]);

	l->local.refused[l->slot.number / 64] |= 1ull << l->slot.number % 64;
}

/* While a UD queue pair receives, the links of all addresses are open: to open them for each input takes long. */
static void keep_links(void)
{
	struct qp *qp = world_make_qp(IBV_QPT_UD);

	world_begin_again(qp);
	start_datagrams(qp);
}

void world_make(void)
{
	struct ibv_context **list;

	kernel_enter_namespace();
	setenv("UROCE_DEVICES", "lo", 1);
	list = rdma_get_devices(NULL);
	require(list && list[0]);
	world.context = list[0]; /* the one that the connection manager uses */
	rdma_free_devices(list);
	world.pd = ibv_alloc_pd(world.context);
	world.cq = ibv_create_cq(world.context, 1024, NULL, NULL, 0);
	require(world.pd && world.cq);
	for (int i = 0; i < 3; i++)
		memset(memory[i], fill[i], sizeof(memory[i]));
	world.open = make_region(0, all);
	world.shut = make_region(1, 0);
	world.inbox = make_region(2, IBV_ACCESS_LOCAL_WRITE);
	world.qp[WORLD_A] = world_make_qp(IBV_QPT_RC);
	world.qp[WORLD_B] = world_make_qp(IBV_QPT_RC);
	world.qp[WORLD_UD] = world_make_qp(IBV_QPT_UD);
	forbid_shared_memory();
	keep_links();
	connect_managed();
	find_port();
	kernel_freeze();
	managed = cm.alive;
}

/* ---- for each input ---- */

/* As a link that has just been opened. */
static void forget_sources(void)
{
	struct udp *udp = container_of(world.port->link, struct udp, link);

	lock_take(&world.loop->receive); /* the helper receives, too */
	memset(udp->source, 0, sizeof(udp->source));
	udp->last = NULL;
	udp->calm = 0;
	udp->looks = 0;
	lock_drop(&world.loop->receive);
}

static void drain_cq(void)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = ibv_poll_cq(world.cq, ARRAY_SIZE(wc), wc)) > 0)
		for (int i = 0; i < n; i++)
			world.completions += wc[i].status == IBV_WC_SUCCESS && wc[i].opcode & IBV_WC_RECV;
	require(n == 0);
}

void world_renew(void)
{
	for (uint32_t i = 0; i < WORLD_QPS; i++)
		world_begin_again(world.qp[i]);
	world_connect(world.qp[WORLD_A], world.qp[WORLD_B]->base.qp_num);
	world_connect(world.qp[WORLD_B], world.qp[WORLD_A]->base.qp_num);
	start_datagrams(world.qp[WORLD_UD]);
	world_run();
	forget_sources();
	memset(memory[0] + GUARD, fill[0], WORLD_REGION);
	memset(memory[2] + GUARD, fill[2], WORLD_REGION);
	world.completions = 0;
}

/* No poll waits for another thread here, nor for a time. */
static bool run_once(void)
{
	struct loop *l = world.loop;
	uint64_t now = kernel_now();
	uint32_t n;

	lock_take(&l->receive);
	n = receive_all(l, &now, NULL);
	n += receive_handover(l, now);
	lock_drop(&l->receive);
	n += run_ready(l, now);
	n += run_timers(l, now);
	return n;
}

void world_run(void)
{
	int i = 0;

	while (run_once())
		require(i++ < RUNS);
	drain_cq();
}

/* Each queue pair has a place of its own. */
static uint8_t *inbox_of(const struct qp *qp)
{
	return memory[2] + GUARD + WORLD_RECEIVE * (qp->index % WORLD_INBOXES);
}

void world_post_receive(struct qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)inbox_of(qp), WORLD_RECEIVE, world.inbox->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	ibv_post_recv(&qp->base, &wr, &bad);
}

void world_post_send(struct qp *qp, enum ibv_wr_opcode opcode, uint32_t length, uint64_t address, uint32_t key)
{
	struct ibv_sge sge = {(uintptr_t)memory[2] + GUARD + WORLD_REGION / 2, length, world.inbox->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {address, key}},
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		wr.wr.atomic = (typeof(wr.wr.atomic)){.remote_addr = address, .rkey = key};
	ibv_post_send(&qp->base, &wr, &bad);
}

/* ---- what must be true ---- */

static void require_message(struct qp *from, struct qp *to)
{
	uint8_t *in = inbox_of(to), *out = memory[2] + GUARD + WORLD_REGION / 2;
	uint32_t before = world.completions;

	world_post_receive(to);
	for (int i = 0; i < SMALL; i++)
		out[i] = (uint8_t)(i + to->index);
	memset(in, 0xee, SMALL);
	world_post_send(from, IBV_WR_SEND, SMALL, 0, 0);
	/* what strangers have said may cost time, no more: an RNR delay, a retransmission */
	for (int i = 0; i < 100 && world.completions == before; i++) {
		world_run();
		kernel_pass(20 * MSEC);
	}
	require(world.completions == before + 1 && !memcmp(in, out, SMALL));
}

void world_require_connections(void)
{
	world_run();
	require_message(world.qp[WORLD_A], world.qp[WORLD_B]);
	require_message(world.qp[WORLD_B], world.qp[WORLD_A]);
	require(world.qp[WORLD_A]->state == IBV_QPS_RTS && world.qp[WORLD_B]->state == IBV_QPS_RTS);
}

static void hear_event(struct rdma_cm_event *e)
{
	struct rdma_cm_id *id = e->id;
	bool is_request = e->event == RDMA_CM_EVENT_CONNECT_REQUEST;

	require(id != world.id[0] && id != world.id[1]);
	if (is_request && e->param.conn.private_data_len & 1)
		rdma_reject(id, "no", 2);
	rdma_ack_cm_event(e);
	if (is_request)
		rdma_destroy_id(id);
}

static bool hear_events(void)
{
	struct rdma_cm_event *e;
	bool any = false;

	while (!rdma_get_cm_event(world.events, &e)) {
		hear_event(e);
		any = true;
	}
	return any;
}

/* What half-open connections wait for, comes. */
static void pass_time(void)
{
	kernel_pass(1000 * SEC);
	lock_take(&cm.lock);
	machine_expire(&cm, kernel_now());
	lock_drop(&cm.lock);
}

void world_require_managed(void)
{
	world_run();
	for (int i = 0; i < 40; i++) {
		bool any = hear_events();

		if (!any && cm.alive == managed)
			break;
		pass_time();
		world_run();
	}
	for (int i = 0; i < 2; i++)
		require(world.id[i]->qp->state == IBV_QPS_RTS);
}

static void require_filled(const uint8_t *bytes, uint8_t with, size_t size)
{
	for (size_t i = 0; i < size; i++)
		require(bytes[i] == with);
}

void world_require_memory(void)
{
	for (int i = 0; i < 3; i++) {
		require_filled(memory[i], fill[i], GUARD);
		require_filled(memory[i] + GUARD + WORLD_REGION, fill[i], GUARD);
	}
	require_filled(memory[1] + GUARD, fill[1], WORLD_REGION);
}

void world_picture(struct picture *p, uint32_t i)
{
	struct qp *qp = world.qp[i];

	memset(p, 0, sizeof(*p));
	lock_take(&qp->lock);
	memcpy(&p->req, &qp->req, sizeof(p->req));
	memcpy(&p->resp, &qp->resp, sizeof(p->resp));
	p->state = qp->state;
	p->sends = qp->sq.head;
	p->receives = qp->rq.head;
	p->failed = qp->failed;
	lock_drop(&qp->lock);
	p->taken = world.completions;
}

bool world_is_same(const struct picture *before, uint32_t i, bool strictly)
{
	const struct requester *q = &before->req;
	const struct responder *s = &before->resp;
	struct picture now;

	world_picture(&now, i);
	if (strictly)
		return !memcmp(before, &now, sizeof(now));
	return now.state == before->state && now.failed == before->failed && now.sends == before->sends &&
	       now.receives == before->receives && now.taken == before->taken && now.req.una.v == q->una.v &&
	       now.req.high.v == q->high.v && now.resp.expected.v == s->expected.v && now.resp.msn == s->msn &&
	       now.resp.inbound == s->inbound && now.resp.received == s->received && now.resp.has_recv == s->has_recv;
}
