/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams between local peers on the fast path: the same checks as in test_fast_ring.c. */
#include <string.h>

#include "fast_path.h"
#include "object/cq_poll.h"

static struct local_peer *find_near(struct qp *qp, const struct path *path, uint32_t qpn, uint64_t now)
{
	return qpn == PEER_QPN ? (struct local_peer *)qp->hca : NULL; /* anything that is there */
}

static enum near_room near_room;

static enum near_room reserve_near(struct qp *qp, struct local_peer *near, uint32_t length, bool waits)
{
	return near_room;
}

static void release_near(struct local_peer *near, uint32_t length)
{
}

static bool near_is_behind;

static bool is_behind(struct local_peer *near)
{
	return near_is_behind;
}

static const struct near_ops near_ops = {find_near, reserve_near, release_near, is_behind};

static struct ibv_send_wr datagram(struct fixture *f, uint64_t id, struct ibv_sge *sge)
{
	return fixture_datagram(f, wr_of(id, sge, 1));
}

/* The first datagram finds out whose local peer the receiver is. */
static void start_near(struct fixture *f)
{
	f->type = IBV_QPT_UD;
	f->now = 100 * SEC;
	fixture_start(f, IBV_QPS_RTS);
	f->batch.near = &near_ops;
	assert_int_equal(fixture_post(f, fixture_datagram(f, (struct ibv_send_wr){.opcode = IBV_WR_SEND})), 0);
	fixture_forget(f);
}

static bool post_near(struct fixture *f, const struct ibv_send_wr *wr, struct packet *p, char *payload)
{
	uint32_t tail = f->qp->sq.tail;
	bool posted = false;
	struct flow *to;

	*p = (struct packet){0};
	lock_take(&f->qp->lock);
	to = f->qp->lane == LANE_DATAGRAM && f->qp->sq.head == f->qp->sq.tail && qp_is_idle(f->qp)
		     ? engine_flow_near(f->qp, wr, f->now)
		     : NULL;
	if (to)
		posted = engine_fast_datagram(f->qp, wr, to, f->now, p, payload);
	lock_drop(&f->qp->lock);
	assert_int_equal(f->qp->sq.tail, tail + posted);
	return posted;
}

/* All that have been posted, as this one. */
static void sent(struct fixture *f, const struct ibv_send_wr *wr)
{
	lock_take(&f->qp->lock);
	engine_fast_datagrams_sent(f->qp, wr);
	lock_drop(&f->qp->lock);
}

static bool send_near(struct fixture *f, const struct ibv_send_wr *wr)
{
	char payload[FAST_RING_MOST];
	struct packet p;

	if (!post_near(f, wr, &p, payload))
		return false;
	sent(f, wr);
	return true;
}

static void a_datagram_says_what_the_request_does(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge;
	char payload[FAST_RING_MOST];
	struct ibv_send_wr wr;
	struct packet p;

	start_near(f);
	for (int i = 0; i < 64; i++)
		f->memory[i] = (uint8_t)(i + 9);
	sge = fixture_sge(f, 10, 64);
	wr = datagram(f, 7, &sge);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = 0x11223344;
	wr.send_flags |= IBV_SEND_SOLICITED;
	assert_true(post_near(f, &wr, &p, payload));
	assert_int_equal(p.opcode, TRANSPORT_UD | OP_SEND_ONLY_IMM);
	assert_int_equal(p.imm, 0x11223344);
	assert_int_equal(p.psn.v, sent_psn(1).v);
	assert_int_equal(p.dest_qpn, PEER_QPN);
	assert_int_equal(p.src_qpn, f->qp->base.qp_num);
	assert_int_equal(p.qkey, QKEY);
	assert_int_equal(p.length, 64);
	assert_true(p.solicited && !p.ack_request && !p.pieces);
	assert_memory_equal(payload, f->memory + 10, 64);
	expect_none(f); /* before it is out */
	sent(f, &wr);
	expect_done(f, 7, IBV_WC_SUCCESS);
	wr = datagram(f, 8, &sge);
	wr.send_flags |= IBV_SEND_INLINE;
	sge.addr = (uintptr_t)f->memory;
	wr.wr.ud.remote_qkey = 0x80000001; /* the QP's own */
	assert_true(post_near(f, &wr, &p, payload));
	assert_int_equal(p.qkey, QKEY);
	assert_memory_equal(payload, f->memory, 64);
	sent(f, &wr);
	expect_done(f, 8, IBV_WC_SUCCESS);
	fixture_run(f);
	expect_silence(f);
	expect_none(f);
	assert_false(fixture_wait_deadline(f));
}

static void a_datagram_that_is_not_plain_is_left_to_the_usual_way(void **state)
{
	struct fixture *f = *state;
	char payload[FAST_RING_MOST];
	struct ibv_send_wr wr;
	struct ah foreign;
	struct ibv_sge sge;
	struct packet p;

	start_near(f);
	foreign = f->ah;
	foreign.pd = &f->other_pd;
#define REFUSED(change)                                       \
	do {                                                  \
		sge = fixture_sge(f, 0, 64);                  \
		wr = datagram(f, 1, &sge);                    \
		change;                                       \
		assert_false(post_near(f, &wr, &p, payload)); \
	} while (0)
	REFUSED(wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM);
	REFUSED(wr.num_sge = -1);
	REFUSED(sge.length = MTU + 1);
	REFUSED(sge.lkey = f->foreign->base.lkey);
	REFUSED(wr.wr.ud.ah = NULL);
	REFUSED(wr.wr.ud.ah = &foreign.base);
	REFUSED(wr.wr.ud.remote_qpn = QPN_MASK);
	REFUSED(wr.wr.ud.remote_qpn = PEER_QPN + 1); /* who is not known */
	REFUSED(f->now += SEC);			     /* after which nobody counts on what was granted */
}

/* Half of what may be sent without an answer. */
static void a_datagram_with_a_credit_request_behind_it_goes_the_usual_way(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	f->cap.max_send_wr = 64;
	start_near(f);
	sge = fixture_sge(f, 0, 8);
	wr = datagram(f, 1, &sge);
	for (int i = 1; i < 15; i++)
		assert_true(send_near(f, &wr));
	assert_false(send_near(f, &wr));
	fixture_post(f, wr);
	expect_sent(f, OP_SEND_ONLY, sent_psn(15));
	assert_int_equal(fixture_sent(f)->packet.opcode, OPCODE_CREDIT_REQUEST);
	for (int i = 16; i < 32; i++)
		assert_true(send_near(f, &wr));
	assert_false(send_near(f, &wr)); /* until that is answered */
}

static struct packet datagram_of(uint32_t length, uint8_t traffic_class)
{
	struct packet p = request(OP_SEND_ONLY_IMM, due_psn(0), length);

	p.imm = 0x55667788;
	p.solicited = true;
	p.traffic_class = traffic_class;
	return p;
}

/* To the same receive one way and the other. */
static void expect_as_usual(struct fixture *f, struct packet p, const union ibv_gid *from)
{
	uint8_t stored[GRH + MTU + 1], *at = f->memory + MEMORY / 2;
	struct cqe straight, usual;

	memset(at, 0xee, sizeof(stored));
	fixture_post_recv(f, 1, GRH + MTU);
	assert_true(give_to(f, p, from, NULL));
	straight = expect_taken(f, 1, IBV_WC_SUCCESS);
	memcpy(stored, at, sizeof(stored));
	memset(at, 0xee, sizeof(stored));
	fixture_post_recv(f, 1, GRH + MTU);
	fixture_give_from(f, p, from);
	usual = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(straight.wqe + 1, usual.wqe);
	straight.wqe = usual.wqe;
	assert_memory_equal(&straight, &usual, sizeof(usual));
	assert_memory_equal(stored, at, sizeof(stored));
	expect_none(f);
}

static void a_datagram_is_stored_as_usual(void **state)
{
	static const uint32_t lengths[] = {0, 1, 7, 8, 64, 65, MTU};
	struct fixture *f = *state;

	start_near(f);
	for (int tc = 0; tc < 2; tc++)
		for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
			expect_as_usual(f, datagram_of(lengths[i], tc), &fixture_there);
			expect_as_usual(f, datagram_of(lengths[i], tc), &fixture_elsewhere);
			expect_as_usual(f, request(OP_SEND_ONLY, due_psn(0), lengths[i]), &fixture_elsewhere);
		}
}

static void a_datagram_uses_what_its_sender_was_promised(void **state)
{
	struct fixture *f = *state;
	struct packet credit_request = request(OP_SEND_ONLY, due_psn(0), 0), answer;
	uint32_t granted;

	start_near(f);
	for (int i = 0; i < 8; i++)
		fixture_post_recv(f, i, GRH + 8);
	credit_request.opcode = OPCODE_CREDIT_REQUEST;
	lock_take(&f->qp->lock);
	assert_true(engine_grant_credit(f->qp, &credit_request, &fixture_there, f->now, &answer));
	lock_drop(&f->qp->lock);
	granted = f->qp->rq.granted;
	assert_int_equal(granted, 4);
	for (uint32_t i = 0; i < 8; i++) {
		assert_true(give(f, request(OP_SEND_ONLY, due_psn(0), 8)));
		expect_taken(f, i, IBV_WC_SUCCESS);
		assert_int_equal(f->qp->rq.granted, granted > i ? granted - i - 1 : 0);
	}
	assert_true(list_empty(&f->qp->rq.credits));
}

static void a_datagram_that_nobody_may_take_goes_the_usual_way(void **state)
{
	struct fixture *f = *state;
	struct packet p = datagram_of(8, 0);
	struct ibv_sge sge = fixture_sge(f, 0, GRH + 8);

	start_near(f);
	assert_false(give(f, p)); /* no receive */
	fixture_post_recv(f, 1, GRH + 7);
	assert_false(give(f, p));
	fixture_give(f, p); /* its receive waits for a smaller one */
	assert_false(give(f, datagram_of(7, 0)));
	fixture_give(f, datagram_of(7, 0));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	fixture_post_recv(f, 2, GRH + 8);
	p.qkey++;
	assert_false(give(f, p));
	p.qkey--;
	p.opcode = TRANSPORT_UD | OP_SEND_FIRST;
	assert_false(give(f, p));
	expect_none(f);
	assert_true(give(f, datagram_of(8, 0)));
	expect_taken(f, 2, IBV_WC_SUCCESS);
	sge.lkey = f->plain->base.lkey;
	fixture_post_recv_to(f, 3, sge);
	assert_false(give(f, datagram_of(8, 0)));
	fixture_give(f, datagram_of(8, 0));
	expect_taken(f, 3, IBV_WC_LOC_PROT_ERR);
}

static void a_datagram_takes_a_shared_receive_the_usual_way(void **state)
{
	struct fixture *f = *state;
	uint32_t granted;

	f->srq = srq_create(&f->hca, &f->pd, NULL, NULL, 8, 2);
	assert_non_null(f->srq);
	start_near(f);
	granted = f->srq->rq.granted; /* to who has not asked yet */
	assert_true(granted > 4);
	for (int i = 0; i < 2; i++) { /* the first one finds none */
		assert_false(give(f, datagram_of(8, 0)));
		fixture_give(f, datagram_of(8, 0));
		assert_int_equal(f->srq->rq.granted, --granted);
		share(f, 1, GRH + 8, f->mr->base.lkey);
	}
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_none(f);
}

static void datagrams_do_not_overtake_what_waits(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	start_near(f);
	sge = fixture_sge(f, 0, 8);
	wr = datagram(f, 1, &sge);
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, &wr, &bad), 0);
	lock_drop(&f->qp->lock);
	assert_false(send_near(f, &wr));
	fixture_run(f);
	assert_true(send_near(f, &wr));
}

static void datagrams_fill_the_queue_as_all_do(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct cqe c;

	f->cap.max_send_wr = 4;
	start_near(f);
	sge = fixture_sge(f, 0, 8);
	wr = datagram(f, 1, &sge);
	wr.send_flags = 0;
	for (int i = 1; i < 3; i++)
		assert_true(send_near(f, &wr));
	wr.send_flags = IBV_SEND_SIGNALED;
	assert_true(send_near(f, &wr));
	assert_false(send_near(f, &wr));
	assert_int_equal(cq_poll(&f->send_cq, 1, &c), 1);
	assert_true(send_near(f, &wr));
}

static uint32_t datagrams_sent(struct fixture *f)
{
	uint32_t n = 0;

	while (!fixture_is_silent(f))
		n += fixture_sent(f)->packet.opcode == (TRANSPORT_UD | OP_SEND_ONLY);
	f->sents = f->shown = 0; /* there are many questions besides */
	return n;
}

/* In so many seconds. */
static uint32_t datagrams_sent_in(struct fixture *f, uint32_t seconds)
{
	uint32_t n = 0;

	for (; seconds; seconds--) {
		fixture_wait(f, SEC);
		n += datagrams_sent(f);
	}
	return n;
}

/* A process that waits for a processor answers nothing, but it is not gone, and not one that knows no questions. */
static void who_is_behind_is_waited_for(void **state)
{
	enum { AHEAD = 31, MORE = 8 }; /* one has been sent to begin with */
	struct fixture *f = *state;

	start_near(f);
	near_is_behind = true;
	for (int i = 0; i < AHEAD + MORE; i++)
		assert_int_equal(fixture_post(f, fixture_datagram(f, (struct ibv_send_wr){.opcode = IBV_WR_SEND})), 0);
	assert_int_equal(datagrams_sent(f), AHEAD);
	assert_int_equal(datagrams_sent_in(f, 5), 0);
	near_is_behind = false;
	fixture_wait(f, 200 * MSEC);
	assert_int_equal(datagrams_sent(f), 0);
	fixture_wait(f, 100 * MSEC);
	assert_int_equal(datagrams_sent(f), MORE);
}

/* For a while: others wait behind him. */
static void but_not_for_ever(void **state)
{
	struct fixture *f = *state;

	start_near(f);
	near_is_behind = true;
	for (int i = 0; i < 40; i++)
		assert_int_equal(fixture_post(f, fixture_datagram(f, (struct ibv_send_wr){.opcode = IBV_WR_SEND})), 0);
	assert_int_equal(datagrams_sent(f), 31);
	assert_int_equal(datagrams_sent_in(f, 9), 0);
	assert_int_equal(datagrams_sent_in(f, 2), 9);
	near_is_behind = false;
}

/* A ring that stays full holds up who waits behind a process that has been stopped; for a second. Then it is silent,
 * and what does not fit is lost, as on a network. */
static void a_ring_that_stays_full_is_not_waited_for_long(void **state)
{
	struct fixture *f = *state;

	start_near(f);
	near_room = NEAR_FULL;
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			fixture_post(f, fixture_datagram(f, (struct ibv_send_wr){.wr_id = (uint64_t)i,
										 .opcode = IBV_WR_SEND,
										 .send_flags = IBV_SEND_SIGNALED})),
			0);
	fixture_wait(f, 200 * MSEC);
	assert_int_equal(datagrams_sent(f), 0);
	expect_none(f);
	fixture_wait(f, 100 * MSEC); /* that long if it has never answered */
	assert_int_equal(datagrams_sent(f), 0);
	for (uint64_t i = 0; i < 3; i++)
		expect_done(f, i, IBV_WC_SUCCESS);
	near_room = NEAR_ROOM;
	assert_int_equal(fixture_post(f, fixture_datagram(f, (struct ibv_send_wr){.opcode = IBV_WR_SEND})), 0);
	assert_int_equal(datagrams_sent(f), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_datagram_is_stored_as_usual),
		T(a_datagram_uses_what_its_sender_was_promised),
		T(a_datagram_that_nobody_may_take_goes_the_usual_way),
		T(a_datagram_takes_a_shared_receive_the_usual_way),
		T(a_datagram_says_what_the_request_does),
		T(a_datagram_that_is_not_plain_is_left_to_the_usual_way),
		T(a_datagram_with_a_credit_request_behind_it_goes_the_usual_way),
		T(datagrams_do_not_overtake_what_waits),
		T(datagrams_fill_the_queue_as_all_do),
		T(who_is_behind_is_waited_for),
		T(but_not_for_ever),
		T(a_ring_that_stays_full_is_not_waited_for_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
