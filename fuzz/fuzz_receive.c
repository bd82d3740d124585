/* SPDX-License-Identifier: BSD-2-Clause */
/* Any packets in any order, for queue pairs of all services in all states: nothing crashes, nothing outside the regions
 * is written, the engine's numbers stay in order, and it always comes to rest.
 *
 * An input is a sequence of records: a byte that says what happens and to which QP, a byte with the length
 * (in fours) of the packet that follows. Wild packets are taken as they are; tame ones count their PSN from
 * where the QP is, and name its regions, so that the fuzzer gets behind the first checks. Seeds:
 * corpus/receive, made of the captures by receive-seeds.py. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "object/ah.h"
#include "object/cq_poll.h"
#include "object/hca_init.h"
#include "require.h"

enum {
	REGION = 4096,
	GUARD = 512,
	RUNS_MAX = 4096, /* turns that one event may cause */
	PEER = 0x123456,
	QKEY = 0x11111111,
	SRQ_DEPTH = 32,
};

/* The first byte of a record: what happens in the top three bits, the QP in the low four. */
enum happening {
	WILD_PACKET,
	TAME_REQUEST,
	TAME_RESPONSE,
	TIME,
	POST,
	RECEIVE,
	MODIFY,
	STRANGER, /* a packet from another address */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One row per QP: the states that matter. */
static const struct setup {
	enum ibv_qp_state state;
	enum ibv_mtu mtu;
	uint8_t resources, retries, timeout;
	uint32_t sends, receives; /* posted */
	enum ibv_qp_type type;	  /* 0: RC */
	bool shares;		  /* receives come from an SRQ. XRC's do anyway */
} setups[] = {
	{IBV_QPS_RTR, IBV_MTU_256, 4, 0, 0, 0, 8},
	{IBV_QPS_RTS, IBV_MTU_256, 4, 7, 14, 12, 8},
	{IBV_QPS_RTS, IBV_MTU_1024, 1, 1, 8, 6, 0},
	{IBV_QPS_RTS, IBV_MTU_4096, 16, 7, 0, 0, 4},
	{IBV_QPS_SQD, IBV_MTU_512, 2, 3, 10, 8, 2},
	{IBV_QPS_RTS, IBV_MTU_2048, 0, 0, 20, 3, 8},
	{IBV_QPS_ERR, IBV_MTU_256, 4, 7, 14, 2, 2},
	{IBV_QPS_INIT, IBV_MTU_256, 4, 7, 14, 0, 2},
	{IBV_QPS_RTS, IBV_MTU_256, 0, 0, 0, 6, 8, IBV_QPT_UC},
	{IBV_QPS_RTS, IBV_MTU_1024, 0, 0, 0, 0, 2, IBV_QPT_UC, true},
	{IBV_QPS_RTS, IBV_MTU_1024, 0, 0, 0, 6, 8, IBV_QPT_UD},
	{IBV_QPS_SQD, IBV_MTU_256, 0, 0, 0, 2, 2, IBV_QPT_UD, true},
	{IBV_QPS_RTS, IBV_MTU_256, 4, 7, 14, 3, 4, IBV_QPT_RC, true},
	{IBV_QPS_RTS, IBV_MTU_256, 4, 7, 14, 0, 4, IBV_QPT_XRC_RECV},
	{IBV_QPS_RTR, IBV_MTU_1024, 1, 7, 14, 0, 0, IBV_QPT_XRC_RECV},
	{IBV_QPS_RTS, IBV_MTU_256, 4, 7, 14, 8, 0, IBV_QPT_XRC_SEND},
};
static_assert(ARRAY_SIZE(setups) == 16, "a record names them by four bits");

static struct {
	struct hca hca;
	struct pd pd;
	struct cq cq;
	struct mr *mr, *read_only;
	struct srq *srq, *xrc_srq;
	struct xrcd xrcd;
	struct ah ah;
	struct rwqe *receive;
	struct qp *qp[ARRAY_SIZE(setups)];
	struct tx_batch batch;
	uint64_t now;
	_Alignas(8) uint8_t memory[GUARD + REGION + GUARD], inbox[GUARD + REGION + GUARD];
	struct mr *inbox_mr;
} f;

static const union ibv_gid here = {.raw = {0xfd, [15] = 1}}, there = {.raw = {0xfd, [15] = 2}};

static void cq_event(struct cq *cq)
{
	(void)cq;
}

static void qp_event(struct qp *qp, enum ibv_event_type event)
{
	(void)qp;
	(void)event;
}

static void srq_event(struct srq *srq, enum ibv_event_type event)
{
	(void)srq;
	(void)event;
}

static const struct hca_ops ops = {cq_event, cq_event, qp_event, srq_event};

static struct srq *srq_of(const struct qp *qp)
{
	return is_xrc_target(qp) ? f.xrc_srq : qp->srq;
}

static void make_qp(uint32_t i)
{
	static const struct ibv_qp_cap full = {16, 16, 3, 3, 64}, sends = {16, 0, 3, 0, 64}, none = {0};
	const struct setup *s = &setups[i];
	bool target = s->type == IBV_QPT_XRC_RECV, initiator = s->type == IBV_QPT_XRC_SEND;

	f.qp[i] = qp_create(&f.hca, target ? NULL : &f.pd, target ? NULL : &f.cq, target || initiator ? NULL : &f.cq,
			    s->shares ? f.srq : NULL, s->type ?: IBV_QPT_RC,
			    target		     ? &none
			    : initiator || s->shares ? &sends
						     : &full,
			    i & 1);
	require(f.qp[i]);
	if (f.qp[i]->xrc)
		f.qp[i]->xrc->domain = f.xrcd.name;
}

static void make_world(void)
{
	const unsigned all =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	require(!hca_init(&f.hca, &ops, 1, 1, NULL) && !cq_init(&f.cq, &f.hca, 4096));
	f.pd.hca = &f.hca;
	f.mr = mr_register(&f.pd, f.memory + GUARD, REGION, 0x10000, all);
	f.read_only = mr_register(&f.pd, f.memory + GUARD, REGION, 0x10000, IBV_ACCESS_REMOTE_READ);
	f.inbox_mr = mr_register(&f.pd, f.inbox + GUARD, REGION, 0x20000, IBV_ACCESS_LOCAL_WRITE);
	f.xrcd = (struct xrcd){.hca = &f.hca, .name = {XRCD_PRIVATE, 1}};
	f.srq = srq_create(&f.hca, &f.pd, NULL, NULL, SRQ_DEPTH, 3);
	f.xrc_srq = srq_create(&f.hca, &f.pd, &f.xrcd, &f.cq, SRQ_DEPTH, 3);
	require(f.srq && f.xrc_srq);
	f.receive = malloc(f.srq->rq.stride);
	require(f.receive);
	f.ah = (struct ah){.base.pd = &f.pd.base, .pd = &f.pd, .path = {.sgid = here, .dgid = there}};
	for (uint32_t i = 0; i < ARRAY_SIZE(setups); i++)
		make_qp(i);
}

static void run(struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *r = &qp->req;
	int runs = 0;
	bool more;

	f.batch.now = f.now;
	f.batch.budget = 1 << 20;
	f.batch.room = UINT32_MAX;
	do {
		more = engine_run(qp, &f.batch);
		require(f.batch.packets <= BATCH_PACKETS && f.batch.iovs <= BATCH_IOVECS &&
			f.batch.regions <= BATCH_REGIONS);
		for (uint32_t i = 0; i < f.batch.packets; i++) {
			const struct tx *tx = &f.batch.tx[i];
			uint8_t header[PACKET_HEADERS];
			uint32_t length = 0;

			for (uint32_t v = 0; v < tx->iovs; v++)
				length += f.batch.iov[tx->iov + v].iov_len;
			require(length == tx->packet.length && length <= qp->mtu);
			packet_encode(&tx->packet, header);
		}
		batch_done(&f.batch);
		require(runs++ < RUNS_MAX);
	} while (more);
	require(!engine_has_work(qp, false));
	if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
		require(psn_diff(r->next, r->una) >= 0 && psn_diff(r->high, r->next) >= 0);
}

/* What a transition wants; XRC takes what RC takes. */
static int mask_of(const struct qp *qp, enum ibv_qp_state to) REQUIRES(qp->lock)
{
	static const int rc[IBV_QPS_ERR + 1] = {
		[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] =
			IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	};
	static const int uc[IBV_QPS_ERR + 1] = {
		[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
		[IBV_QPS_RTS] = IBV_QP_SQ_PSN,
	};
	static const int ud[IBV_QPS_ERR + 1] = {
		[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
		[IBV_QPS_RTS] = IBV_QP_SQ_PSN,
	};

	if (to == IBV_QPS_RTS && qp->state != IBV_QPS_RTR)
		return 0;
	return qp->transport == TRANSPORT_UC ? uc[to] : qp->transport == TRANSPORT_UD ? ud[to] : rc[to];
}

static void modify(struct qp *qp, const struct setup *s, enum ibv_qp_state to) REQUIRES(qp->lock)
{
	const struct ibv_qp_attr attr = {
		.qp_state = to,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = s->mtu,
		.qkey = QKEY,
		.dest_qp_num = PEER,
		.rq_psn = 0xfffffa,
		.sq_psn = 0xfffffd,
		.max_dest_rd_atomic = s->resources,
		.max_rd_atomic = s->resources,
		.min_rnr_timer = 1,
		.timeout = s->timeout,
		.retry_cnt = s->retries,
		.rnr_retry = s->retries,
	};

	engine_modify(qp, &attr, IBV_QP_STATE | mask_of(qp, to), f.now);
}

/* Each kind of request, some of several packets. */
static void post_send(struct qp *qp, uint32_t seed) REQUIRES(qp->lock)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
	} kinds[] = {
		{IBV_WR_SEND, 700},	     {IBV_WR_RDMA_READ, 1300},	     {IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
		{IBV_WR_RDMA_WRITE, 0},	     {IBV_WR_SEND_WITH_IMM, 64},     {IBV_WR_RDMA_WRITE, 1025},
		{IBV_WR_RDMA_READ, 0},	     {IBV_WR_ATOMIC_CMP_AND_SWP, 8}, {IBV_WR_RDMA_WRITE_WITH_IMM, 512},
		{IBV_WR_SEND_WITH_INV, 256}, {IBV_WR_RDMA_READ, 256},	     {IBV_WR_SEND, 0},
	};
	uint32_t kind = seed % ARRAY_SIZE(kinds), half = kinds[kind].length / 2;
	struct ibv_sge sge[] = {{0x20000, half, f.inbox_mr->base.lkey},
				{0x20000 + half, kinds[kind].length - half, f.inbox_mr->base.lkey}};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = seed,
			.sg_list = sge,
			.num_sge = 2,
			.opcode = kinds[kind].opcode,
			.send_flags = (seed & 1 ? IBV_SEND_SIGNALED : 0) | (seed & 16 ? IBV_SEND_FENCE : 0),
			.wr.rdma = {0x10000, 1},
		};

	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		wr.wr.atomic.rkey = 1;
	if (qp->transport == TRANSPORT_UD) {
		wr.wr.ud.ah = &f.ah.base;
		wr.wr.ud.remote_qpn = PEER + seed / 32;
		wr.wr.ud.remote_qkey = QKEY;
	}
	wr.qp_type.xrc.remote_srqn = seed;
	engine_post_send(qp, &wr, &bad);
}

static void post_receive(struct qp *qp, uint32_t length) REQUIRES(qp->lock)
{
	struct ibv_sge sge[] = {{0x20000, length / 3, f.inbox_mr->base.lkey},
				{0x20000 + length / 3, length - length / 3, f.inbox_mr->base.lkey}};
	struct ibv_recv_wr *bad, wr = {.wr_id = length, .sg_list = sge, .num_sge = 2};

	if (srq_of(qp))
		srq_post(srq_of(qp), &wr, &bad);
	else
		engine_post_recv(qp, &wr, &bad);
}

static void empty(struct srq *srq)
{
	uint32_t position;

	while (srq_take(srq, NULL, f.receive, &position))
		;
}

static void begin(void)
{
	struct cqe cqe[64];

	if (!f.hca.ops)
		make_world();
	memset(f.memory, 0x5a, sizeof(f.memory));
	memset(f.inbox, 0xa5, sizeof(f.inbox));
	f.now = SEC;
	empty(f.srq);
	empty(f.xrc_srq);
	for (size_t i = 0; i < ARRAY_SIZE(setups); i++) {
		const struct setup *s = &setups[i];
		struct qp *qp = f.qp[i];

		lock_take(&qp->lock);
		modify(qp, s, IBV_QPS_RESET);
		modify(qp, s, IBV_QPS_INIT);
		for (uint32_t n = 0; n < s->receives; n++)
			post_receive(qp, 600);
		if (s->state != IBV_QPS_INIT) {
			if (s->type == IBV_QPT_UD)
				qp->mtu = 128u << s->mtu; /* the port's, as verbs/ sets it */
			else
				qp->path = (struct path){.sgid = here, .dgid = there};
			modify(qp, s, IBV_QPS_RTR);
		}
		if (s->state != IBV_QPS_INIT && s->state != IBV_QPS_RTR)
			modify(qp, s, IBV_QPS_RTS);
		for (uint32_t n = 0; n < s->sends; n++)
			post_send(qp, n);
		run(qp);
		if (qp->state != s->state)
			modify(qp, s, s->state);
		lock_drop(&qp->lock);
	}
	while (cq_poll(&f.cq, 64, cqe))
		;
	f.cq.overrun = false;
}

static bool is_intact(const uint8_t *guard, uint8_t with)
{
	for (int i = 0; i < GUARD; i++)
		if (guard[i] != with)
			return false;
	return true;
}

static void tame(struct packet *p, const struct qp *qp, bool request) REQUIRES(qp->lock)
{
	uint32_t length = p->dma_length;

	p->psn = psn_add(p->opcode == OPCODE_CREDIT_GRANT && qp->flow ? psn(qp->flow[0].credit_request)
			 : request				      ? qp->resp.expected
								      : qp->req.una,
			 p->psn.v);
	p->qkey = QKEY;
	p->src_qpn = PEER;
	p->srqn = f.xrc_srq->number;
	p->pkey = PKEY_DEFAULT;
	p->rkey = p->rkey & 1 ? f.read_only->base.rkey : f.mr->base.rkey;
	p->va = 0x10000 + p->va % (REGION + 64);
	p->dma_length = length % (2 * REGION);
}

static void take_packet(struct qp *qp, enum happening what, const uint8_t *bytes, size_t length) REQUIRES(qp->lock)
{
	uint8_t *exact = malloc(length); /* so that a look beyond the end is seen */
	struct packet p = {0}, answer;
	/* a ring's packets are tried without the time first */
	bool by_ring = f.batch.delay_ack && qp->transport == TRANSPORT_UD && what != STRANGER;

	require(exact || !length);
	memcpy(exact, bytes, length);
	if (!packet_parse(&p, exact, length)) {
		if (what != WILD_PACKET)
			tame(&p, qp, what != TAME_RESPONSE);
		p.to = here.raw;
		p.is_uroce = p.migrated;
		if (p.opcode == OPCODE_CREDIT_REQUEST)
			engine_grant_credit(qp, &p, what == STRANGER ? &here : &there, f.now, &answer);
		else if (!by_ring || !engine_receive_fast(qp, &p, &there, NULL))
			engine_receive(qp, &p, what == STRANGER ? &here : &there, f.now, NULL);
	}
	free(exact);
}

/* Returns the bytes of the record. */
static size_t happen(const uint8_t *data, size_t size)
{
	size_t length = size > 1 ? min_of(4 * (size_t)data[1], size - 2) : 0;
	uint32_t value = size > 1 ? data[1] : 0;
	enum happening what = data[0] >> 5;
	struct qp *qp = f.qp[data[0] % ARRAY_SIZE(setups)];
	const struct setup *s = &setups[data[0] % ARRAY_SIZE(setups)];
	static const enum ibv_qp_state states[] = {IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR, IBV_QPS_RTS};

	f.batch.delay_ack = data[0] & 0x10;
	f.now += 5 * USEC;
	lock_take(&qp->lock);
	switch (what) {
	case TIME:
		f.now = engine_deadline(qp) != NEVER ? max_of(f.now, engine_deadline(qp)) : f.now + value * MSEC;
		engine_expire(qp, f.now);
		break;
	case POST:
		post_send(qp, value);
		break;
	case RECEIVE:
		post_receive(qp, value * 16);
		break;
	case MODIFY:
		modify(qp, s, states[value % ARRAY_SIZE(states)]);
		break;
	default:
		take_packet(qp, what, data + 2, length);
		break;
	}
	if (f.batch.delay_ack) {
		f.batch.now = f.now;
		f.batch.room = UINT32_MAX;
		engine_run(qp, &f.batch);
		batch_done(&f.batch);
		f.batch.delay_ack = false;
	}
	run(qp);
	lock_drop(&qp->lock);
	return what == TIME || what == POST || what == RECEIVE || what == MODIFY ? 2 : 2 + length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	begin();
	for (size_t at = 0; at < size;)
		at += happen(data + at, size - at);
	require(is_intact(f.memory, 0x5a) && is_intact(f.memory + GUARD + REGION, 0x5a));
	require(is_intact(f.inbox, 0xa5) && is_intact(f.inbox + GUARD + REGION, 0xa5));
	return 0;
}
