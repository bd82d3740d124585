/* SPDX-License-Identifier: BSD-2-Clause */
/* A QP that changes its link: to shared memory, where packets are large and nothing is lost. */
#include <string.h>

#include "fixture.h"

enum { LARGE = 4096 };

static bool change_link(struct fixture *f, uint32_t mtu)
{
	bool done;

	lock_take(&f->qp->lock);
	done = engine_change_link(f->qp, mtu);
	lock_drop(&f->qp->lock);
	fixture_run(f);
	return done;
}

static void start(struct fixture *f)
{
	fixture_start(f, IBV_QPS_RTS);
	assert_true(change_link(f, LARGE));
}

static struct ibv_send_wr wr_of(uint64_t id, enum ibv_wr_opcode opcode, uint32_t length)
{
	return (struct ibv_send_wr){.wr_id = id,
				    .opcode = opcode,
				    .num_sge = (int)length,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.rdma = {IOVA, 0x99}};
}

static void a_packet_is_as_large_as_the_link_takes(void **state)
{
	struct fixture *f = *state;

	start(f);
	fixture_post(f, wr_of(1, IBV_WR_SEND, LARGE));
	assert_int_equal(expect_sent(f, OP_SEND_ONLY, sent_psn(0))->packet.length, LARGE);
	fixture_post(f, wr_of(2, IBV_WR_RDMA_WRITE, LARGE + 1));
	expect_sent(f, OP_WRITE_FIRST, sent_psn(1));
	assert_int_equal(expect_sent(f, OP_WRITE_LAST, sent_psn(2))->packet.length, 1);
	fixture_give(f, ack(sent_psn(2), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
}

static void what_is_on_the_way_arrives_before_the_link_changes(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, wr_of(1, IBV_WR_SEND, MTU));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	assert_false(change_link(f, LARGE));
	fixture_post(f, wr_of(2, IBV_WR_SEND, 2 * MTU));
	expect_silence(f);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_silence(f);
	assert_true(change_link(f, LARGE));
	expect_sent(f, OP_SEND_ONLY, sent_psn(1));
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
}

/* All of the message that was sent is acknowledged, but it has not been sent to its end. */
static void a_message_that_has_begun_ends_the_way_it_began(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	lock_take(&f->qp->lock);
	f->qp->req.window = MTU;
	lock_drop(&f->qp->lock);
	fixture_post(f, wr_of(1, IBV_WR_SEND, 2 * MTU));
	expect_sent(f, OP_SEND_FIRST, sent_psn(0));
	expect_silence(f);
	assert_false(change_link(f, LARGE));
	fixture_give(f, ack(sent_psn(0), ACKED));
	assert_int_equal(expect_sent(f, OP_SEND_LAST, sent_psn(1))->packet.length, MTU);
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_true(change_link(f, LARGE));
}

static void the_way_back_is_the_same(void **state)
{
	struct fixture *f = *state;

	start(f);
	assert_true(change_link(f, 0));
	fixture_post(f, wr_of(1, IBV_WR_SEND, 2 * MTU));
	expect_sent(f, OP_SEND_FIRST, sent_psn(0));
	expect_sent(f, OP_SEND_LAST, sent_psn(1));
}

/* The peer has refused to share memory when packets were there already. */
static void what_a_link_has_not_delivered_goes_by_the_next(void **state)
{
	struct fixture *f = *state;

	start(f);
	fixture_post(f, wr_of(1, IBV_WR_SEND, 2 * MTU));
	fixture_post(f, wr_of(2, IBV_WR_RDMA_READ, 2 * MTU));
	fixture_post(f, wr_of(3, IBV_WR_SEND, MTU));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_sent(f, OP_READ_REQUEST, sent_psn(1));
	expect_sent(f, OP_SEND_ONLY, sent_psn(2));
	lock_take(&f->qp->lock);
	engine_start_over(f->qp);
	lock_drop(&f->qp->lock);
	assert_true(change_link(f, 0));
	expect_sent(f, OP_SEND_FIRST, sent_psn(0));
	expect_sent(f, OP_SEND_LAST, sent_psn(1));
	expect_sent(f, OP_READ_REQUEST, sent_psn(2));
	expect_sent(f, OP_SEND_ONLY, sent_psn(4));
	expect_silence(f);
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	fixture_give(f, response(OP_READ_RESPONSE_FIRST, sent_psn(2), MTU));
	fixture_give(f, response(OP_READ_RESPONSE_LAST, sent_psn(3), MTU));
	expect_done(f, 2, IBV_WC_SUCCESS);
	fixture_give(f, ack(sent_psn(4), ACKED));
	expect_done(f, 3, IBV_WC_SUCCESS);
}

static void where_nothing_is_lost_nothing_is_probed_for(void **state)
{
	struct fixture *f = *state;

	start(f);
	fixture_post(f, wr_of(1, IBV_WR_SEND, 8));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	fixture_wait(f, 130 * MSEC); /* T is 67 ms, and the timer may fire at twice that */
	expect_silence(f);
	assert_true(fixture_wait_deadline(f));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
}

/* IBTA 9.7.6.1.3: the timer counts from what was acknowledged last, or posted, and fires between T and 4 T. It is not
 * set anew for each. */
static void the_timer_runs_on_while_the_peer_acknowledges(void **state)
{
	const uint64_t t = 4096ull << 14;
	struct fixture *f = *state;
	uint32_t n = 0;
	uint64_t last;

	start(f);
	for (; n < 20; n++) {
		fixture_post(f, wr_of(n, IBV_WR_SEND, 8));
		expect_sent(f, OP_SEND_ONLY, sent_psn(n));
		fixture_wait(f, t * 3 / 4);
		expect_silence(f);
		fixture_give(f, ack(sent_psn(n), ACKED));
		expect_done(f, n, IBV_WC_SUCCESS);
		fixture_wait(f, t / 8);
	}
	fixture_post(f, wr_of(n, IBV_WR_SEND, 8));
	last = f->now;
	expect_sent(f, OP_SEND_ONLY, sent_psn(n));
	while (fixture_is_silent(f))
		assert_true(fixture_wait_deadline(f));
	assert_true(f->now - last >= t && f->now - last <= 4 * t);
	expect_sent(f, OP_SEND_ONLY, sent_psn(n));
	fixture_give(f, ack(sent_psn(n), ACKED));
	expect_done(f, n, IBV_WC_SUCCESS);
	assert_false(fixture_wait_deadline(f)); /* nothing is on the way, and no timer runs */
}

static void time_that_the_peer_did_not_look_is_not_counted(void **state)
{
	struct fixture *f = *state;

	start(f);
	fixture_post(f, wr_of(1, IBV_WR_SEND, 8));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	for (int i = 0; i < 100; i++) {
		lock_take(&f->qp->lock);
		f->now = engine_deadline(f->qp);
		engine_postpone(f->qp, f->now);
		engine_expire(f->qp, f->now);
		lock_drop(&f->qp->lock);
	}
	expect_silence(f);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void where_nothing_is_waited_for_nothing_is_postponed(void **state)
{
	struct fixture *f = *state;

	start(f);
	lock_take(&f->qp->lock);
	engine_postpone(f->qp, f->now);
	assert_true(engine_deadline(f->qp) == NEVER);
	lock_drop(&f->qp->lock);
}

/* What there is no room for waits; an acknowledgement finds some that requests leave to it. */
static void no_more_is_made_than_the_link_takes(void **state)
{
	struct fixture *f = *state;

	start(f);
	f->room = BATCH_SPARE + 100 + BATCH_OVERHEAD;
	fixture_post(f, wr_of(1, IBV_WR_SEND, 100));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	fixture_post(f, wr_of(2, IBV_WR_SEND, 101));
	expect_silence(f);
	assert_true(f->batch.full);
	fixture_post(f, wr_of(3, IBV_WR_RDMA_READ, 8)); /* not before the one before it */
	expect_silence(f);
	f->room = BATCH_SPARE;
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(0), 8, 0, 8));
	expect_ack(f, due_psn(0), ACKED);
	expect_silence(f);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(1), 0, 0, 8));
	expect_silence(f);
	f->room = 0;
	fixture_run(f);
	expect_sent(f, OP_READ_RESPONSE_ONLY, due_psn(1));
	expect_sent(f, OP_SEND_ONLY, sent_psn(1));
	expect_sent(f, OP_READ_REQUEST, sent_psn(2));
}

static void a_read_comes_in_packets_of_the_link(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	start(f);
	memset(f->memory, 'a', LARGE);
	fixture_post(f, wr_of(1, IBV_WR_RDMA_READ, 2 * LARGE));
	expect_sent(f, OP_READ_REQUEST, sent_psn(0));
	p = response(OP_READ_RESPONSE_FIRST, sent_psn(0), LARGE);
	p.mtu = LARGE;
	fixture_give(f, p);
	p = response(OP_READ_RESPONSE_LAST, sent_psn(1), LARGE);
	p.mtu = LARGE;
	fixture_give(f, p);
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f->memory, f->payload, LARGE);
	assert_memory_equal(f->memory + LARGE, f->payload, LARGE);
}

static void requests_are_answered_the_way_they_came(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	fixture_start(f, IBV_QPS_RTS);
	p = aimed(f, OP_WRITE_ONLY, due_psn(0), LARGE, 0, LARGE);
	p.mtu = LARGE;
	fixture_give(f, p);
	expect_ack(f, due_psn(0), ACKED);
	assert_memory_equal(f->memory, f->payload, LARGE);
	p = aimed(f, OP_READ_REQUEST, due_psn(1), 0, 0, 2 * LARGE);
	p.mtu = LARGE;
	fixture_give(f, p);
	expect_sent(f, OP_READ_RESPONSE_FIRST, due_psn(1));
	expect_sent(f, OP_READ_RESPONSE_LAST, due_psn(2));
	/* again: the first answer has been lost, for all we know */
	fixture_give(f, p);
	expect_sent(f, OP_READ_RESPONSE_FIRST, due_psn(1));
	expect_sent(f, OP_READ_RESPONSE_LAST, due_psn(2));
	p = aimed(f, OP_READ_REQUEST, due_psn(3), 0, 0, 2 * MTU);
	fixture_give(f, p);
	expect_sent(f, OP_READ_RESPONSE_FIRST, due_psn(3));
	expect_sent(f, OP_READ_RESPONSE_LAST, due_psn(4));
	p = aimed(f, OP_WRITE_ONLY, due_psn(5), MTU + 1, 0, MTU + 1);
	fixture_give(f, p);
	expect_ack(f, due_psn(5), NAK_INVALID_REQUEST);
}

static void over_a_network_acks_are_packets(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY, due_psn(0), 8);

	fixture_start(f, IBV_QPS_RTS);
	f->delay_ack = true;
	fixture_post_recv(f, 1, 100);
	p.ack_request = true;
	fixture_give(f, p);
	f->delay_ack = false;
	fixture_post(f, wr_of(2, IBV_WR_SEND, 8));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_ack(f, due_psn(0), ACKED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_packet_is_as_large_as_the_link_takes),
		TEST(what_is_on_the_way_arrives_before_the_link_changes),
		TEST(a_message_that_has_begun_ends_the_way_it_began),
		TEST(the_way_back_is_the_same),
		TEST(what_a_link_has_not_delivered_goes_by_the_next),
		TEST(where_nothing_is_lost_nothing_is_probed_for),
		TEST(the_timer_runs_on_while_the_peer_acknowledges),
		TEST(time_that_the_peer_did_not_look_is_not_counted),
		TEST(where_nothing_is_waited_for_nothing_is_postponed),
		TEST(no_more_is_made_than_the_link_takes),
		TEST(a_read_comes_in_packets_of_the_link),
		TEST(requests_are_answered_the_way_they_came),
		TEST(over_a_network_acks_are_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
