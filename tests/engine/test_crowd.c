/* SPDX-License-Identifier: BSD-2-Clause */
/* Several senders of UC or UD, and slow receivers, with receive queues of their own or one for all. Each message
 * that arrives is whole, in order and comes once. Where the network loses nothing, nothing is lost: flow control
 * (engine/flow.c) waits for receivers. A failure prints its seed; UROCE_SEED=n runs only that one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "object/cq_poll.h"
#include "object/hca_init.h"

enum {
	SENDERS = 4,
	MESSAGES = 150, /* of each */
	DEPTH = 40,	/* of queues: more than a sender sends unasked */
	POOL = 300,	/* of one for all, of which half is free when the first has asked */
	LARGEST = 2000, /* bytes */
	WAY = 1024,	/* packets on the way at most */
	BUDGET = 16384,
	ROOM = 4096, /* bytes of memory for each message */
};

struct head {
	uint32_t sender, number, length;
};

struct crossing {
	struct packet packet;
	uint8_t bytes[256];
};

struct end {
	struct qp *qp;
	struct cq cq;
	struct mr *mr;
	uint8_t *memory; /* POOL times ROOM */
	uint32_t posted; /* messages, or receives */
	uint32_t polled;
};

struct world {
	struct hca hca;
	struct pd pd;
	struct srq *srq;
	struct ah ah;
	struct end sender[SENDERS], receiver[SENDERS];
	uint32_t receivers;
	enum ibv_qp_type type;
	uint64_t now, seed, dice;
	bool loses;
	struct crossing way[WAY]; /* a ring: in the order in which they were sent */
	uint32_t first, last;
	struct tx_batch batch;
	uint32_t seen[SENDERS], arrived[SENDERS]; /* numbers */
};

static const union ibv_gid host = {.raw = {0xfd, [15] = 1}};

static uint32_t roll(struct world *w, uint32_t below)
{
	w->dice = w->dice * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(w->dice >> 33) % below;
}

static void require(const struct world *w, bool hazards, const char *what)
{
	if (!hazards)
		fail_msg("UROCE_SEED=%" PRIu64 " at %" PRIu64 " us: %s", w->seed, (uint64_t)(w->now / USEC), what);
}

static void ignore_cq(struct cq *cq)
{
}

static void ignore_qp(struct qp *qp, enum ibv_event_type event)
{
}

static void ignore_srq(struct srq *srq, enum ibv_event_type event)
{
}

static const struct hca_ops ops = {ignore_cq, ignore_cq, ignore_qp, ignore_srq};

static uint8_t byte_of(const struct head *h, uint32_t i)
{
	return (uint8_t)(h->sender * 31 + h->number * 7 + i);
}

/* ---- the ends ---- */

static void open_end(struct world *w, struct end *e, struct srq *srq)
{
	const struct ibv_qp_cap cap = {DEPTH, srq ? 0 : POOL, 1, srq ? 0 : 1, 0};

	e->memory = malloc(POOL * ROOM);
	e->mr = mr_register(&w->pd, e->memory, POOL * ROOM, (uintptr_t)e->memory, IBV_ACCESS_LOCAL_WRITE);
	require(w, !cq_init(&e->cq, &w->hca, 2 * POOL), "no CQ");
	e->qp = qp_create(&w->hca, &w->pd, &e->cq, &e->cq, srq, w->type, &cap, true);
	require(w, e->memory && e->mr && e->qp, "no memory");
}

static void start(struct world *w, struct end *e, const struct end *peer)
{
	static const int uc[] = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, IBV_QP_SQ_PSN};
	static const int ud[] = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN};
	struct ibv_qp_attr a = {.port_num = 1,
				.qkey = QKEY,
				.path_mtu = IBV_MTU_256,
				.dest_qp_num = peer->qp->base.qp_num,
				.rq_psn = 0xffff00,
				.sq_psn = 0xffff00};

	lock_take(&e->qp->lock);
	e->qp->path = (struct path){.sgid = host, .dgid = host};
	if (w->type == IBV_QPT_UD)
		e->qp->mtu = 256; /* the port's, as verbs/ sets it */
	for (int i = 0; i < 3; i++) {
		a.qp_state = IBV_QPS_INIT + (unsigned)i;
		require(w, !engine_modify(e->qp, &a, IBV_QP_STATE | (w->type == IBV_QPT_UD ? ud : uc)[i], w->now),
			"a transition is refused");
	}
	lock_drop(&e->qp->lock);
}

static void run(struct world *w, struct end *e)
{
	bool more;

	lock_take(&e->qp->lock);
	w->batch.now = w->now;
	w->batch.budget = BUDGET;
	w->batch.room = UINT32_MAX;
	do {
		more = engine_run(e->qp, &w->batch);
		for (uint32_t i = 0; i < w->batch.packets; i++) {
			struct crossing *c = &w->way[w->last++ % WAY];
			const struct tx *tx = &w->batch.tx[i];
			uint32_t at = 0;

			require(w, w->last - w->first < WAY, "flow control lets too much on its way");
			c->packet = tx->packet;
			for (uint32_t v = 0; v < tx->iovs; v++) {
				memcpy(c->bytes + at, w->batch.iov[tx->iov + v].iov_base,
				       w->batch.iov[tx->iov + v].iov_len);
				at += (uint32_t)w->batch.iov[tx->iov + v].iov_len;
			}
		}
		batch_done(&w->batch);
	} while (more);
	lock_drop(&e->qp->lock);
}

static void send_one(struct world *w, uint32_t number)
{
	struct end *e = &w->sender[number], *to = &w->receiver[number % w->receivers];
	uint8_t *at = e->memory + e->posted % DEPTH * ROOM;
	struct head h = {number, e->posted, sizeof(h)};
	struct ibv_sge sge = {(uintptr_t)at, 0, e->mr->base.lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	if (e->posted == MESSAGES || e->posted - e->polled == DEPTH)
		return;
	h.length += roll(w, (w->type == IBV_QPT_UD ? 256 : LARGEST) - sizeof(h));
	memcpy(at, &h, sizeof(h));
	for (uint32_t i = sizeof(h); i < h.length; i++)
		at[i] = byte_of(&h, i);
	sge.length = h.length;
	wr.wr.ud.ah = &w->ah.base;
	wr.wr.ud.remote_qpn = to->qp->base.qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	lock_take(&e->qp->lock);
	require(w, !engine_post_send(e->qp, &wr, &bad), "a post is refused");
	lock_drop(&e->qp->lock);
	e->posted++;
	run(w, e);
}

static void post_receive(struct world *w, struct end *e, uint64_t slot)
{
	uint8_t *at = e->memory + slot * ROOM;
	struct ibv_sge sge = {(uintptr_t)at, ROOM, e->mr->base.lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};
	int err;

	memset(at, 0xee, ROOM);
	if (w->srq) {
		err = srq_post(w->srq, &wr, &bad);
	} else {
		lock_take(&e->qp->lock);
		err = engine_post_recv(e->qp, &wr, &bad);
		lock_drop(&e->qp->lock);
	}
	require(w, !err, "a receive is refused");
}

static void check(struct world *w, const uint8_t *at, uint32_t length)
{
	struct head h;

	if (w->type == IBV_QPT_UD) {
		at += GRH;
		length -= GRH;
	}
	memcpy(&h, at, sizeof(h));
	require(w, length >= sizeof(h) && h.sender < SENDERS && h.length == length, "a message is not whole");
	require(w, h.number >= w->seen[h.sender], "a message came twice, or too late");
	for (uint32_t i = sizeof(h); i < length; i++)
		require(w, at[i] == byte_of(&h, i), "a message has wrong bytes");
	w->seen[h.sender] = h.number + 1;
	w->arrived[h.sender]++;
}

/* An application polls its CQs; a receiver posts its receives again. */
static void poll_end(struct world *w, struct end *e, bool receives)
{
	struct cqe c;

	while (cq_poll(&e->cq, 1, &c) == 1) {
		struct end *owner = w->srq ? &w->receiver[0] : e;

		require(w, c.status == IBV_WC_SUCCESS, ibv_wc_status_str(c.status));
		e->polled++;
		if (!receives)
			continue;
		check(w, owner->memory + c.wr_id * ROOM, c.byte_len);
		post_receive(w, owner, c.wr_id);
	}
}

/* ---- the network ---- */

static struct end *find(struct world *w, uint32_t qpn)
{
	for (uint32_t i = 0; i < SENDERS; i++)
		if (w->sender[i].qp->base.qp_num == qpn)
			return &w->sender[i];
	for (uint32_t i = 0; i < w->receivers; i++)
		if (w->receiver[i].qp->base.qp_num == qpn)
			return &w->receiver[i];
	return NULL;
}

static void deliver(struct world *w)
{
	struct crossing *c = &w->way[w->first % WAY];
	struct packet *p = &c->packet, answer;
	struct end *e = find(w, p->dest_qpn);
	bool answers = false;

	w->first++;
	require(w, e, "a packet to nobody");
	if (w->loses && roll(w, 20) == 0)
		return;
	p->payload = c->bytes;
	p->to = host.raw;
	lock_take(&e->qp->lock);
	if (p->opcode == OPCODE_CREDIT_REQUEST)
		answers = engine_grant_credit(e->qp, p, &host, w->now, &answer);
	else
		engine_receive(e->qp, p, &host, w->now, NULL);
	lock_drop(&e->qp->lock);
	run(w, e);
	if (answers)
		w->way[w->last++ % WAY].packet = answer;
}

static void expire(struct world *w, struct end *e)
{
	lock_take(&e->qp->lock);
	if (engine_deadline(e->qp) <= w->now)
		engine_expire(e->qp, w->now);
	lock_drop(&e->qp->lock);
	run(w, e);
}

/* ---- */

static bool is_over(const struct world *w)
{
	for (uint32_t i = 0; i < SENDERS; i++)
		if (w->sender[i].polled < MESSAGES)
			return false;
	return w->first == w->last;
}

static void step(struct world *w)
{
	uint32_t who = roll(w, 1 + roll(w, SENDERS)); /* some have more to say than others */

	w->now += roll(w, 20) * USEC;
	switch (roll(w, 8)) {
	case 0:
	case 1:
	case 2:
		send_one(w, who);
		break;
	case 3:
	case 4:
	case 5:
		for (uint32_t n = roll(w, 6); n && w->first != w->last; n--)
			deliver(w);
		break;
	case 6:
		expire(w, &w->sender[who]);
		poll_end(w, &w->sender[who], false);
		break;
	case 7:
		if (roll(w, 32) == 0) /* it is slow */
			poll_end(w, &w->receiver[who % w->receivers], true);
		break;
	}
}

/* Where each sender has a receiver of its own, a pool has little more than all may send unasked. */
static void simulate(uint64_t seed, enum ibv_qp_type type, bool shares, bool loses, bool in_pairs)
{
	uint32_t receives = in_pairs && shares ? SENDERS * DEPTH : type == IBV_QPT_UD || shares ? POOL : DEPTH;
	struct world *w = aligned_alloc(64, (sizeof(*w) + 63) & ~63ul);

	assert_non_null(w);
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->dice = seed * 0x9e3779b97f4a7c15u + in_pairs * 16 + type * 4 + shares * 2 + loses;
	w->now = SEC;
	w->type = type;
	w->loses = loses;
	w->receivers = in_pairs ? SENDERS : 1;
	require(w, !hca_init(&w->hca, &ops, 1, 7, NULL), "no adapter");
	w->pd.hca = &w->hca;
	w->ah = (struct ah){.base.pd = &w->pd.base, .pd = &w->pd, .path = {.sgid = host, .dgid = host}};
	if (shares)
		w->srq = srq_create(&w->hca, &w->pd, NULL, NULL, POOL, 1);
	for (uint32_t i = 0; i < SENDERS; i++)
		open_end(w, &w->sender[i], NULL);
	for (uint32_t i = 0; i < w->receivers; i++)
		open_end(w, &w->receiver[i], w->srq);
	for (uint32_t i = 0; i < SENDERS; i++)
		start(w, &w->sender[i], &w->receiver[i % w->receivers]);
	for (uint32_t i = 0; i < w->receivers; i++) {
		start(w, &w->receiver[i], &w->sender[i]);
		for (uint32_t n = 0; n < receives && (!w->srq || i == 0); n++)
			post_receive(w, &w->receiver[i], n);
	}
	for (uint32_t n = 0; !is_over(w); n++) {
		require(w, n < 1000000, "it never ends");
		step(w);
	}
	for (uint32_t i = 0; i < w->receivers; i++)
		poll_end(w, &w->receiver[i], true);
	for (uint32_t i = 0; i < SENDERS; i++)
		require(w, loses ? w->arrived[i] > MESSAGES / 4 : w->arrived[i] == MESSAGES, "messages are lost");
	for (uint32_t i = 0; i < SENDERS + w->receivers; i++) {
		struct end *e = i < SENDERS ? &w->sender[i] : &w->receiver[i - SENDERS];

		qp_destroy(e->qp);
		cq_fini(&e->cq);
		free(e->memory);
	}
	if (w->srq)
		srq_destroy(w->srq);
	hca_fini(&w->hca);
	free(w);
}

static void crowd(enum ibv_qp_type type, bool shares, bool loses, bool in_pairs)
{
	const char *one = getenv("UROCE_SEED"), *quick = getenv("UROCE_QUICK");
	uint64_t runs = quick && *quick ? 5 : 40;

	if (one)
		simulate(strtoull(one, NULL, 0), type, shares, loses, in_pairs);
	for (uint64_t seed = 1; !one && seed <= runs; seed++)
		simulate(seed, type, shares, loses, in_pairs);
}

#define CROWD(name, ...)               \
	static void name(void **state) \
	{                              \
		crowd(__VA_ARGS__);    \
	}
CROWD(uc_loses_nothing, IBV_QPT_UC, false, false, true)
CROWD(uc_is_whole_and_in_order, IBV_QPT_UC, false, true, true)
CROWD(uc_with_one_queue_for_all_loses_nothing, IBV_QPT_UC, true, false, true)
CROWD(ud_loses_nothing, IBV_QPT_UD, false, false, false)
CROWD(ud_with_an_srq_loses_nothing, IBV_QPT_UD, true, false, false)
CROWD(ud_in_pairs_with_one_queue_for_all_loses_nothing, IBV_QPT_UD, true, false, true)
CROWD(uc_with_one_queue_for_all_is_whole_and_in_order, IBV_QPT_UC, true, true, true)
CROWD(ud_is_whole_and_in_order, IBV_QPT_UD, false, true, false)
CROWD(ud_with_an_srq_is_whole_and_in_order, IBV_QPT_UD, true, true, false)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uc_loses_nothing),
		cmocka_unit_test(uc_is_whole_and_in_order),
		cmocka_unit_test(uc_with_one_queue_for_all_loses_nothing),
		cmocka_unit_test(ud_loses_nothing),
		cmocka_unit_test(ud_with_an_srq_loses_nothing),
		cmocka_unit_test(ud_in_pairs_with_one_queue_for_all_loses_nothing),
		cmocka_unit_test(uc_with_one_queue_for_all_is_whole_and_in_order),
		cmocka_unit_test(ud_is_whole_and_in_order),
		cmocka_unit_test(ud_with_an_srq_is_whole_and_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
