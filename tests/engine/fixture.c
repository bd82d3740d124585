/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"
#include "object/cq_poll.h"
#include "object/hca_init.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SENT 0xfffffeu
#define FIRST_DUE  0xfffffdu

const union ibv_gid fixture_here = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}},
		    fixture_there = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2}},
		    fixture_elsewhere = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 3}};

static struct fixture *of_hca(struct hca *hca)
{
	return container_of(hca, struct fixture, hca);
}

static void cq_event(struct cq *cq)
{
	of_hca(cq->hca)->cq_events++;
}

static void cq_error(struct cq *cq)
{
	of_hca(cq->hca)->cq_errors++;
}

static void qp_event(struct qp *qp, enum ibv_event_type event)
{
	of_hca(qp->hca)->event[event]++;
}

static void srq_event(struct srq *srq, enum ibv_event_type event)
{
	of_hca(srq->hca)->event[event]++;
}

static const struct hca_ops ops = {cq_event, cq_error, qp_event, srq_event};

/* The fixture's QPN is known: slot 1, index 0. */
static uint32_t draw_in_order(void *arg)
{
	struct hca *hca = arg;

	return hca->qps.used;
}

int fixture_setup(void **state)
{
	const unsigned all =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct window_bind bind;
	struct fixture *f = aligned_alloc(64, (sizeof(*f) + 63) & ~63ul);

	if (!f)
		return -1;
	memset(f, 0, offsetof(struct fixture, sent));
	f->now = SEC;
	if (hca_init(&f->hca, &ops, 1, 7, draw_in_order) || cq_init(&f->send_cq, &f->hca, 256) ||
	    cq_init(&f->recv_cq, &f->hca, 256))
		return -1;
	f->pd.hca = f->other_pd.hca = &f->hca;
	f->mr = mr_register(&f->pd, f->memory, MEMORY, IOVA, all | IBV_ACCESS_MW_BIND);
	f->plain = mr_register(&f->pd, f->memory, MEMORY, IOVA, 0);
	f->foreign = mr_register(&f->other_pd, f->memory, MEMORY, IOVA, all);
	f->exported = mr_register(&f->pd, f->memory, MEMORY, IOVA, all | IBV_ACCESS_MW_BIND);
	f->window = window_create(&f->pd, IBV_MW_TYPE_2);
	f->rkey = ibv_inc_rkey(f->window->window.rkey);
	bind = (struct window_bind){f->window->index, f->exported->base.lkey, (uint8_t)f->rkey, all, IOVA, MEMORY};
	if (!window_bind(&f->hca, &f->pd, 1, &bind))
		return -1;
	for (size_t i = 0; i < sizeof(f->payload); i++)
		f->payload[i] = (uint8_t)(i * 3 + 1);
	f->attr = (struct ibv_qp_attr){
		.port_num = 1,
		.qp_access_flags = all,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = PEER_QPN,
		.rq_psn = FIRST_DUE,
		.sq_psn = FIRST_SENT,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 2,
		.rnr_retry = 2,
	};
	f->attr.qkey = QKEY;
	f->cap = (struct ibv_qp_cap){64, 64, 4, 4, 64};
	f->type = IBV_QPT_RC;
	f->ah = (struct ah){
		.base.pd = &f->pd.base, .pd = &f->pd, .path = {.sgid = fixture_here, .dgid = fixture_there}};
	*state = f;
	return 0;
}

int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	if (f->qp)
		qp_destroy(f->qp);
	if (f->srq)
		srq_destroy(f->srq);
	cq_fini(&f->send_cq);
	cq_fini(&f->recv_cq);
	hca_fini(&f->hca);
	free(f);
	return 0;
}

struct fixture *fixture_renew(void **state)
{
	fixture_teardown(state);
	assert_int_equal(fixture_setup(state), 0);
	return *state;
}

int fixture_modify(struct fixture *f, const struct ibv_qp_attr *attr, int mask)
{
	int err;

	lock_take(&f->qp->lock);
	err = engine_modify(f->qp, attr, mask, f->now);
	lock_drop(&f->qp->lock);
	return err;
}

int fixture_move(struct fixture *f, enum ibv_qp_state to)
{
	static const int masks[][IBV_QPS_ERR + 1] = {
		[IBV_QPT_RC] = {[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
				[IBV_QPS_RTS] = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						IBV_QP_MAX_QP_RD_ATOMIC},
		[IBV_QPT_UC] = {[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
				[IBV_QPS_RTS] = IBV_QP_SQ_PSN},
		[IBV_QPT_UD] =
			{[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, [IBV_QPS_RTS] = IBV_QP_SQ_PSN},
	};
	struct ibv_qp_attr attr = f->attr;
	/* XRC takes what RC takes, and ignores what it has no use for */
	enum ibv_qp_type type = f->type == IBV_QPT_UC || f->type == IBV_QPT_UD ? f->type : IBV_QPT_RC;
	int mask = to == IBV_QPS_RTS && f->qp->state != IBV_QPS_RTR ? 0 : masks[type][to];

	attr.qp_state = to;
	if (to == IBV_QPS_RTR && f->type == IBV_QPT_UD)
		f->qp->mtu = MTU;
	else if (to == IBV_QPS_RTR)
		f->qp->path = (struct path){.sgid = fixture_here, .dgid = fixture_there};
	return fixture_modify(f, &attr, IBV_QP_STATE | mask);
}

/* What takes a UC or UD QP to SQE. */
static void post_a_mistake(struct fixture *f)
{
	struct ibv_sge nowhere = {.addr = IOVA, .length = 1, .lkey = 0};
	struct cqe c;

	fixture_post(
		f, fixture_datagram(f, (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = &nowhere, .num_sge = 1}));
	assert_int_equal(cq_poll(&f->send_cq, 1, &c), 1);
}

void fixture_start(struct fixture *f, enum ibv_qp_state state)
{
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};

	f->qp = qp_create(&f->hca, &f->pd, &f->send_cq, &f->recv_cq, f->srq, f->type, &f->cap, f->sig_all);
	assert_non_null(f->qp);
	for (size_t i = 0; i < ARRAY_SIZE(way) && f->qp->state != state; i++) {
		if ((state == IBV_QPS_SQE && way[i] == IBV_QPS_SQD) || (state == IBV_QPS_ERR && i > 0))
			break;
		assert_int_equal(fixture_move(f, way[i]), 0);
	}
	if (state == IBV_QPS_ERR)
		assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	if (state == IBV_QPS_SQE)
		post_a_mistake(f);
	assert_int_equal(f->qp->state, state);
}

void fixture_start_with_uroce(struct fixture *f)
{
	fixture_start(f, IBV_QPS_RTS);
	f->qp->resp.peer_is_uroce = true;
}

psn_t sent_psn(uint32_t n)
{
	return psn_add(psn(FIRST_SENT), n);
}

psn_t due_psn(uint32_t n)
{
	return psn_add(psn(FIRST_DUE), n);
}

struct ibv_send_wr fixture_datagram(struct fixture *f, struct ibv_send_wr wr)
{
	if (f->type == IBV_QPT_UD) {
		wr.wr.ud.ah = &f->ah.base;
		wr.wr.ud.remote_qpn = PEER_QPN;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return wr;
}

struct ibv_sge fixture_sge(struct fixture *f, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){IOVA + offset, length, f->mr->base.lkey};
}

int fixture_post(struct fixture *f, struct ibv_send_wr wr)
{
	struct ibv_sge sge = fixture_sge(f, 0, (uint32_t)wr.num_sge);
	struct ibv_send_wr *bad = NULL;
	int err;

	if (!wr.sg_list) {
		wr.sg_list = &sge;
		wr.num_sge = sge.length ? 1 : 0;
	}
	lock_take(&f->qp->lock);
	err = engine_post_send(f->qp, &wr, &bad);
	lock_drop(&f->qp->lock);
	assert_true(!err == !bad);
	fixture_run(f);
	return err;
}

int fixture_post_recv(struct fixture *f, uint64_t wr_id, uint32_t length)
{
	return fixture_post_recv_to(f, wr_id, fixture_sge(f, MEMORY / 2, length));
}

int fixture_post_recv_to(struct fixture *f, uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_recv_wr *bad = NULL, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = sge.length ? 1 : 0};
	int err;

	lock_take(&f->qp->lock);
	err = engine_post_recv(f->qp, &wr, &bad);
	lock_drop(&f->qp->lock);
	return err;
}

static void keep(struct fixture *f, const struct tx *tx)
{
	struct sent *s = &f->sent[f->sents++];
	uint32_t length = 0;

	assert_true(f->sents < SENT_MAX);
	s->packet = tx->packet;
	for (uint32_t i = 0; i < tx->iovs; i++) {
		const struct iovec *iov = &f->batch.iov[tx->iov + i];

		assert_true(length + iov->iov_len <= sizeof(s->payload));
		memcpy(s->payload + length, iov->iov_base, iov->iov_len);
		length += iov->iov_len;
	}
	assert_int_equal(length, packet_carries(&tx->packet));
	assert_int_equal(tx->packet.pkey, PKEY_DEFAULT);
	if (f->type == IBV_QPT_UD) {
		s->dgid = tx->path->dgid;
		return;
	}
	assert_int_equal(tx->packet.dest_qpn, f->attr.dest_qp_num);
	assert_ptr_equal(tx->path, &f->qp->path);
	s->dgid = tx->path->dgid;
}

void fixture_run(struct fixture *f)
{
	bool more;

	lock_take(&f->qp->lock);
	f->batch.now = f->now;
	f->batch.delay_ack = f->delay_ack;
	f->batch.budget = 1 << 20;
	f->batch.room = f->room ?: UINT32_MAX;
	do {
		more = engine_run(f->qp, &f->batch);
		engine_mark(f->qp, &f->batch);
		for (uint32_t i = 0; i < f->batch.packets; i++)
			keep(f, &f->batch.tx[i]);
		batch_done(&f->batch);
	} while (more);
	lock_drop(&f->qp->lock);
}

void fixture_give_from(struct fixture *f, struct packet p, const union ibv_gid *from)
{
	fixture_give_by(f, p, from, &fixture_here);
}

void fixture_give_by(struct fixture *f, struct packet p, const union ibv_gid *from, const union ibv_gid *to)
{
	uint8_t *exact = malloc(packet_carries(&p));

	memcpy(exact, p.payload ? p.payload : f->payload, packet_carries(&p));
	p.payload = exact;
	p.to = to->raw;
	if (p.opcode != OPCODE_CNP && p.opcode != OPCODE_CREDIT_GRANT && p.opcode != OPCODE_SELECTIVE_ACK &&
	    p.opcode != OPCODE_ANSWER_AGAIN && p.opcode != OPCODE_ANSWERED_AGAIN)
		p.opcode |= f->qp->transport;
	f->now += USEC;
	lock_take(&f->qp->lock);
	if (engine_heed_path(f->qp, &p, from, to->raw, f->now))
		engine_receive(f->qp, &p, from, f->now, NULL);
	lock_drop(&f->qp->lock);
	free(exact);
	fixture_run(f);
}

void fixture_give(struct fixture *f, struct packet p)
{
	fixture_give_from(f, p, &fixture_there);
}

static uint64_t deadline(struct fixture *f)
{
	uint64_t when;

	lock_take(&f->qp->lock);
	when = engine_deadline(f->qp);
	lock_drop(&f->qp->lock);
	return when;
}

bool fixture_wait_deadline(struct fixture *f)
{
	uint64_t when = deadline(f);

	if (when == NEVER)
		return false;
	f->now = max_of(f->now, when);
	lock_take(&f->qp->lock);
	engine_expire(f->qp, f->now);
	lock_drop(&f->qp->lock);
	fixture_run(f);
	assert_true(deadline(f) > f->now);
	return true;
}

void fixture_wait(struct fixture *f, uint64_t ns)
{
	uint64_t until = f->now + ns;

	while (deadline(f) <= until)
		fixture_wait_deadline(f);
	f->now = until;
}

bool fixture_is_silent(const struct fixture *f)
{
	return f->shown == f->sents;
}

void fixture_forget(struct fixture *f)
{
	f->shown = f->sents = 0;
}

const struct sent *fixture_sent(struct fixture *f)
{
	assert_true(f->shown < f->sents);
	return &f->sent[f->shown++];
}

const struct sent *expect_sent_(struct fixture *f, uint8_t opcode, psn_t at, int line)
{
	const struct sent *s = f->shown < f->sents ? &f->sent[f->shown++] : NULL;

	opcode |= f->qp->transport;
	if (!s || s->packet.opcode != opcode || s->packet.psn.v != at.v)
		fail_msg("line %d: expected %s psn %06x, got %s psn %06x", line, opcode_info[opcode].name, at.v,
			 s ? opcode_info[s->packet.opcode].name : "nothing", s ? s->packet.psn.v : 0);
	return s;
}

void expect_silence_(const struct fixture *f, int line)
{
	if (!fixture_is_silent(f))
		fail_msg("line %d: expected nothing, got %s psn %06x syndrome %02x", line,
			 opcode_info[f->sent[f->shown].packet.opcode].name, f->sent[f->shown].packet.psn.v,
			 f->sent[f->shown].packet.syndrome);
}

void expect_ack_(struct fixture *f, psn_t at, uint8_t syndrome, int line)
{
	const struct sent *s = expect_sent_(f, OP_ACKNOWLEDGE, at, line);

	if (s->packet.syndrome != syndrome)
		fail_msg("line %d: expected syndrome %02x, got %02x", line, syndrome, s->packet.syndrome);
}

struct cqe expect_completion_(struct cq *cq, uint64_t wr_id, enum ibv_wc_status status, int line)
{
	struct cqe c;

	if (cq_poll(cq, 1, &c) != 1)
		fail_msg("line %d: no completion", line);
	if (c.wr_id != wr_id || c.status != status)
		fail_msg("line %d: expected wr_id %lu %s, got %lu %s", line, wr_id, ibv_wc_status_str(status), c.wr_id,
			 ibv_wc_status_str(c.status));
	return c;
}

void expect_none_(struct fixture *f, int line)
{
	struct cqe c;

	if (cq_poll(&f->send_cq, 1, &c) || cq_poll(&f->recv_cq, 1, &c))
		fail_msg("line %d: a completion: wr_id %lu %s", line, c.wr_id, ibv_wc_status_str(c.status));
}

struct packet request(uint8_t operation, psn_t at, uint32_t length)
{
	return (struct packet){
		.opcode = operation,
		.pkey = PKEY_DEFAULT,
		.dest_qpn = 0x010000,
		.psn = at,
		.length = length,
		.ack_request = true,
		.qkey = QKEY,
		.src_qpn = PEER_QPN,
	};
}

struct packet ack(psn_t at, uint8_t syndrome)
{
	struct packet p = request(OP_ACKNOWLEDGE, at, 0);

	p.ack_request = false;
	p.syndrome = syndrome;
	return p;
}

struct packet response(uint8_t operation, psn_t at, uint32_t length)
{
	struct packet p = request(operation, at, length);

	p.ack_request = false;
	p.syndrome = ACKED;
	return p;
}

struct packet aimed(struct fixture *f, uint8_t operation, psn_t at, uint32_t length, uint32_t offset,
		    uint32_t dma_length)
{
	struct packet p = request(operation, at, length);

	p.va = IOVA + offset;
	p.rkey = f->mr->base.rkey;
	p.dma_length = dma_length;
	return p;
}
