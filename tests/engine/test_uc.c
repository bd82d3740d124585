/* SPDX-License-Identifier: BSD-2-Clause */
/* UC (IBTA 9.8.2): messages of many packets without ACKs; a message that loses a packet is dropped whole. */
#include <errno.h>
#include <string.h>

#include "fixture.h"

#define TARGET 4096 /* offset in memory that the peer writes to */

static int setup(void **state)
{
	struct fixture *f;

	if (fixture_setup(state))
		return -1;
	f = *state;
	f->type = IBV_QPT_UC;
	f->sig_all = true;
	return 0;
}

static const uint8_t *target(const struct fixture *f)
{
	return f->memory + TARGET;
}

static const uint8_t *received(const struct fixture *f)
{
	return f->memory + MEMORY / 2;
}

static void a_message_becomes_packets_and_is_complete(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint8_t first, middle, last, only;
	} rows[] = {
		{IBV_WR_SEND, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST, OP_SEND_ONLY},
		{IBV_WR_SEND_WITH_IMM, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_IMM, OP_SEND_ONLY_IMM},
		{IBV_WR_RDMA_WRITE, OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST, OP_WRITE_ONLY},
		{IBV_WR_RDMA_WRITE_WITH_IMM, OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM, OP_WRITE_ONLY_IMM},
	};
	struct fixture *f = *state;
	uint32_t n = 0;

	fixture_start(f, IBV_QPS_RTS);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_send_wr wr = {.wr_id = i, .opcode = rows[i].opcode, .num_sge = 2 * MTU + 5};
		const struct sent *s;

		wr.imm_data = 0x1020304;
		wr.wr.rdma.remote_addr = 0x5000;
		wr.wr.rdma.rkey = 0x77;
		assert_int_equal(fixture_post(f, wr), 0);
		s = expect_sent(f, rows[i].first, sent_psn(n++));
		assert_int_equal(s->packet.length, MTU);
		if (wr.opcode == IBV_WR_RDMA_WRITE) {
			assert_int_equal(s->packet.va, 0x5000);
			assert_int_equal(s->packet.rkey, 0x77);
			assert_int_equal(s->packet.dma_length, 2 * MTU + 5);
		}
		s = expect_sent(f, rows[i].middle, sent_psn(n++));
		assert_memory_equal(s->payload, f->memory + MTU, MTU);
		s = expect_sent(f, rows[i].last, sent_psn(n++));
		assert_int_equal(s->packet.length, 5);
		if (opcode_info[s->packet.opcode].flags & HAS_IMM)
			assert_int_equal(s->packet.imm, 0x1020304);
		assert_false(s->packet.ack_request);
		expect_done(f, i, IBV_WC_SUCCESS);
		wr.num_sge = 1;
		assert_int_equal(fixture_post(f, wr), 0);
		expect_sent(f, rows[i].only, sent_psn(n++));
		expect_done(f, i, IBV_WC_SUCCESS);
	}
	expect_silence(f);
	assert_false(fixture_wait_deadline(f));
}

/* More packets than a tx batch has room for: the message is not complete before its last one is sent. */
static void a_long_message_takes_many_turns(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = fixture_sge(f, 0, 200 * MTU);
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;
	uint32_t packets = 0;

	fixture_start(f, IBV_QPS_RTS);
	f->qp->flow->peer = FLOW_SILENT; /* nothing waits for it: test_flow.c */
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, &wr, &bad), 0);
	do {
		f->batch.room = UINT32_MAX;
		assert_true(engine_run(f->qp, &f->batch));
		packets += f->batch.packets;
		batch_done(&f->batch);
		expect_none(f);
	} while (packets < 200);
	assert_false(engine_run(f->qp, &f->batch));
	lock_drop(&f->qp->lock);
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void requests_that_want_an_answer_are_refused(void **state)
{
	static const enum ibv_wr_opcode never[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						   IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV};
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		assert_int_equal(fixture_post(f, (struct ibv_send_wr){.opcode = never[i], .num_sge = 8}), EINVAL);
	expect_none(f);
}

/* Nothing is ever said, whatever comes: every operation that a peer may ask for by RC. */
static void nothing_is_answered(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(0), 8, TARGET, 8));
	fixture_give(f, request(OP_SEND_ONLY, due_psn(1), 8)); /* no receive */
	p = aimed(f, OP_READ_REQUEST, due_psn(2), 0, TARGET, 8);
	p.payload = f->payload;
	lock_take(&f->qp->lock);
	engine_receive(f->qp, &p, &fixture_there, f->now, NULL); /* RC: not for this QP */
	lock_drop(&f->qp->lock);
	fixture_run(f);
	expect_silence(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	assert_memory_equal(target(f), f->payload, 8);
}

static void a_receive_serves_the_next_message_when_one_is_lost(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	fixture_start(f, IBV_QPS_RTR);
	fixture_post_recv(f, 1, 4 * MTU);
	fixture_post_recv(f, 2, 4 * MTU);
	/* of five packets the third is lost */
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU));
	fixture_give(f, request(OP_SEND_MIDDLE, due_psn(1), MTU));
	fixture_give(f, request(OP_SEND_MIDDLE, due_psn(3), MTU));
	fixture_give(f, request(OP_SEND_LAST, due_psn(4), 4));
	expect_none(f);
	/* the first is lost */
	fixture_give(f, request(OP_SEND_LAST, due_psn(6), 4));
	expect_none(f);
	/* the last is lost, and so is the whole of the next */
	fixture_give(f, request(OP_SEND_FIRST, due_psn(7), MTU));
	p = request(OP_SEND_FIRST, due_psn(10), MTU);
	p.payload = f->payload + 1;
	fixture_give(f, p);
	p = request(OP_SEND_LAST_IMM, due_psn(11), 3);
	p.imm = 99;
	fixture_give(f, p);
	{
		struct cqe c = expect_taken(f, 1, IBV_WC_SUCCESS);

		assert_int_equal(c.byte_len, MTU + 3);
		assert_int_equal(c.imm, 99);
		assert_int_equal(c.flags, IBV_WC_WITH_IMM);
		assert_int_equal(c.src_qp, PEER_QPN);
	}
	assert_memory_equal(received(f), f->payload + 1, MTU);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(12), 8));
	expect_taken(f, 2, IBV_WC_SUCCESS);
	expect_none(f);
	expect_silence(f);
	assert_int_equal(f->event[IBV_EVENT_COMM_EST], 1);
}

static void a_new_message_ends_the_one_before(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 4 * MTU);
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU));
	fixture_give(f, aimed(f, OP_WRITE_FIRST, due_psn(1), MTU, TARGET, MTU + 1));
	fixture_give(f, request(OP_SEND_LAST, due_psn(2), 1)); /* of another kind: neither goes on */
	fixture_give(f, request(OP_WRITE_LAST, due_psn(3), 1));
	expect_none(f);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(4), 8));
	assert_int_equal(expect_taken(f, 1, IBV_WC_SUCCESS).byte_len, 8);
	assert_int_equal(f->memory[TARGET + MTU], 0);
}

static void a_write_says_nothing_unless_it_has_immediate_data(void **state)
{
	struct fixture *f = *state;
	struct packet p;
	struct cqe c;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 0);
	fixture_give(f, aimed(f, OP_WRITE_FIRST, due_psn(0), MTU, TARGET, MTU + 4));
	fixture_give(f, request(OP_WRITE_LAST, due_psn(1), 4));
	expect_none(f);
	assert_memory_equal(target(f), f->payload, MTU);
	assert_memory_equal(target(f) + MTU, f->payload, 4);
	fixture_give(f, aimed(f, OP_WRITE_FIRST, due_psn(2), MTU, TARGET, MTU + 4));
	p = request(OP_WRITE_LAST_IMM, due_psn(3), 4);
	p.imm = 5;
	fixture_give(f, p);
	c = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(c.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(c.byte_len, MTU + 4);
	assert_int_equal(c.imm, 5);
}

/* Rows: a message of one packet that is not allowed, for one reason each. It changes no memory, takes no
 * receive, and the next one is taken. */
static void what_is_not_allowed_is_dropped(void **state)
{
	struct fixture *f = *state;
	uint8_t before[MEMORY];
	uint32_t n = 0;
	struct packet bad[8];

	f->attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 8);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = aimed(f, OP_WRITE_ONLY, due_psn(0), 8, TARGET, 8);
	bad[0].rkey = 0x1234;
	bad[1].rkey = f->foreign->base.rkey;
	bad[2].rkey = f->plain->base.rkey;
	bad[3].va = IOVA + MEMORY - 7;
	bad[4].dma_length = 9;
	bad[5] = request(OP_SEND_ONLY, due_psn(0), 9);		       /* longer than the receive */
	bad[6] = request(OP_SEND_FIRST, due_psn(0), MTU - 1);	       /* shorter than a packet that others follow */
	bad[7] = aimed(f, OP_WRITE_FIRST, due_psn(0), MTU, TARGET, 1); /* longer than announced */
	memcpy(before, f->memory, MEMORY);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		bad[i].psn = due_psn(n++);
		fixture_give(f, bad[i]);
		assert_memory_equal(before, f->memory, MEMORY);
		expect_none(f);
		assert_int_equal(f->qp->state, IBV_QPS_RTS);
	}
	fixture_give_from(f, request(OP_SEND_ONLY, due_psn(n), 8), &fixture_elsewhere); /* not the peer */
	expect_none(f);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(n), 8));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_silence(f);
	for (int e = 0; e < 32; e++)
		assert_int_equal(f->event[e], 0);
}

static void without_the_right_nobody_writes(void **state)
{
	struct fixture *f = *state;

	f->attr.qp_access_flags = 0;
	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(0), 8, TARGET, 8));
	assert_int_equal(target(f)[0], 0);
}

/* The region goes in the middle of a message: what follows is not written. */
static void a_write_ends_with_its_region(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_WRITE_FIRST, due_psn(0), MTU, TARGET, 2 * MTU));
	mr_deregister(f->mr);
	fixture_give(f, request(OP_WRITE_LAST, due_psn(1), MTU));
	assert_int_equal(target(f)[MTU], 0);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
}

static void a_receive_that_may_not_be_written_ends_the_qp(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv_to(f, 1, (struct ibv_sge){IOVA, 64, f->plain->base.lkey});
	fixture_post_recv(f, 2, 64);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 8));
	expect_taken(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_taken(f, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

/* IBTA 10.3.1.6. The message before it is sent whole, that which fails not at all. */
static void a_local_error_stops_the_send_queue_alone(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge good = fixture_sge(f, 0, 2 * MTU), nowhere = {IOVA, 8, 0};
	struct ibv_send_wr wr[3] = {{.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &good, .num_sge = 1},
				    {.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &nowhere, .num_sge = 1},
				    {.wr_id = 3, .opcode = IBV_WR_SEND}},
			   *bad;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 9, 64);
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, wr, &bad), 0);
	lock_drop(&f->qp->lock);
	fixture_run(f);
	expect_sent(f, OP_SEND_FIRST, sent_psn(0));
	expect_sent(f, OP_SEND_LAST, sent_psn(1));
	expect_silence(f);
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_LOC_PROT_ERR);
	expect_done(f, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_SQE);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 8));
	expect_taken(f, 9, IBV_WC_SUCCESS);
	assert_int_equal(fixture_move(f, IBV_QPS_RTS), 0);
	assert_int_equal(fixture_post(f, (struct ibv_send_wr){.wr_id = 4, .opcode = IBV_WR_SEND}), 0);
	expect_sent(f, OP_SEND_ONLY, sent_psn(2));
	expect_done(f, 4, IBV_WC_SUCCESS);
}

static void errors_flush_both_queues(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_SQD);
	fixture_post_recv(f, 1, 4 * MTU);
	fixture_post_recv(f, 2, 4 * MTU);
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU));
	assert_int_equal(fixture_post(f, (struct ibv_send_wr){.wr_id = 3, .opcode = IBV_WR_SEND}), 0);
	expect_none(f);
	assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	expect_done(f, 3, IBV_WC_WR_FLUSH_ERR);
	expect_taken(f, 1, IBV_WC_WR_FLUSH_ERR);
	expect_taken(f, 2, IBV_WC_WR_FLUSH_ERR);
	expect_none(f);
}

#define OWN_TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OWN_TEST(a_message_becomes_packets_and_is_complete),
		OWN_TEST(a_long_message_takes_many_turns),
		OWN_TEST(requests_that_want_an_answer_are_refused),
		OWN_TEST(nothing_is_answered),
		OWN_TEST(a_receive_serves_the_next_message_when_one_is_lost),
		OWN_TEST(a_new_message_ends_the_one_before),
		OWN_TEST(a_write_says_nothing_unless_it_has_immediate_data),
		OWN_TEST(what_is_not_allowed_is_dropped),
		OWN_TEST(without_the_right_nobody_writes),
		OWN_TEST(a_write_ends_with_its_region),
		OWN_TEST(a_receive_that_may_not_be_written_ends_the_qp),
		OWN_TEST(a_local_error_stops_the_send_queue_alone),
		OWN_TEST(errors_flush_both_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
