/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective retransmission between two uroce: what the responder keeps and tells, and what the requester sends again.
 */
#include <string.h>

#include "fixture.h"
#include "object/early.h"
#include "requests.h"

/* As a uroce sends it: from port 4791. */
static struct packet from_uroce(struct packet p)
{
	p.is_uroce = true;
	return p;
}

static struct packet send_at(uint32_t n)
{
	return from_uroce(request(OP_SEND_ONLY, due_psn(n), 8));
}

static void post_receives(struct fixture *f, uint32_t count)
{
	for (uint32_t i = 1; i <= count; i++)
		assert_int_equal(fixture_post_recv(f, i, 64), 0);
}

/* The next packet tells that the peer's packets of these bits, from `expected` on, wait. */
static void expect_sack(struct fixture *f, uint32_t expected, uint8_t bits)
{
	const struct sent *s = fixture_sent(f);
	struct sack sack;

	assert_int_equal(s->packet.opcode, OPCODE_SELECTIVE_ACK);
	assert_int_equal(s->packet.psn.v, due_psn(expected).v);
	assert_true(sack_parse(&sack, s->payload, s->packet.length));
	assert_int_equal(sack.first.v, due_psn(expected).v);
	assert_int_equal(sack.bits[0], bits);
}

/* The peer tells that it expects this packet and has, of the eight from `first` on, those of the bits. */
static void give_part(struct fixture *f, uint32_t expected, uint32_t first, uint8_t bits)
{
	uint8_t payload[SACK_PAYLOAD];
	uint32_t length = sack_begin(payload, sent_psn(first), 8);

	payload[4] = bits;
	fixture_give(f, (struct packet){.opcode = OPCODE_SELECTIVE_ACK,
					.pkey = PKEY_DEFAULT,
					.dest_qpn = f->qp->base.qp_num,
					.psn = sent_psn(expected),
					.length = length,
					.payload = payload});
}

static void give_sack(struct fixture *f, uint32_t expected, uint8_t bits)
{
	give_part(f, expected, expected, bits);
}

static void what_comes_early_waits_and_is_done_in_order(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	post_receives(f, 4);
	fixture_give(f, send_at(2));
	expect_sack(f, 0, 1 << 2);
	expect_ack(f, due_psn(0), NAK_SEQUENCE);
	fixture_give(f, send_at(1));
	expect_sack(f, 0, 1 << 1 | 1 << 2);
	expect_silence(f);
	expect_none(f);
	fixture_give(f, send_at(0));
	expect_ack(f, due_psn(2), ACKED);
	expect_silence(f);
	for (uint32_t i = 1; i <= 3; i++)
		expect_taken(f, i, IBV_WC_SUCCESS);
	expect_none(f);
	fixture_give(f, send_at(3));
	expect_taken(f, 4, IBV_WC_SUCCESS);
}

static void a_copy_of_what_waits_is_told_again_and_done_once(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	post_receives(f, 3);
	fixture_give(f, send_at(1));
	fixture_forget(f);
	fixture_give(f, send_at(1));
	expect_sack(f, 0, 1 << 1);
	fixture_give(f, send_at(0));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_taken(f, 2, IBV_WC_SUCCESS);
	expect_none(f);
}

static void other_peers_see_go_back_n(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	post_receives(f, 3);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(1), 8));
	expect_ack(f, due_psn(0), NAK_SEQUENCE);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 8));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_none(f);
	assert_null(f->qp->resp.early);
}

static void too_far_ahead_is_dropped(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	post_receives(f, 3);
	fixture_give(f, send_at(SELECTIVE_PSNS));
	expect_ack(f, due_psn(0), NAK_SEQUENCE);
	expect_silence(f);
	assert_null(f->qp->resp.early);
}

static void a_receiver_that_is_not_ready_keeps_nothing(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	fixture_give(f, send_at(1));
	fixture_give(f, send_at(0));
	fixture_forget(f);
	assert_null(f->qp->resp.early);
	fixture_give(f, send_at(1)); /* the peer will send it again after the first */
	expect_silence(f);
	post_receives(f, 3);
	fixture_give(f, send_at(0));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_none(f);
}

static void only_what_is_missing_is_sent_again(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	fixture_post(f, send_of(0, 6 * MTU));
	fixture_run(f);
	fixture_forget(f);
	give_sack(f, 1, 0x1e); /* 2 to 5 */
	expect_sent(f, OP_SEND_MIDDLE, sent_psn(1));
	expect_silence(f);
	give_sack(f, 1, 0x1e); /* nothing new */
	expect_silence(f);
	fixture_give(f, ack(sent_psn(1), NAK_SEQUENCE)); /* nor this */
	expect_silence(f);
	fixture_give(f, ack(sent_psn(5), ACKED));
	expect_done(f, 0, IBV_WC_SUCCESS);
}

/* Packets that overtake each other a little are no loss. */
static void two_packets_may_overtake_one(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	fixture_post(f, send_of(0, 6 * MTU));
	fixture_run(f);
	fixture_forget(f);
	give_sack(f, 0, 0x06);
	expect_silence(f);
	give_sack(f, 0, 0x0e);
	expect_sent(f, OP_SEND_FIRST, sent_psn(0));
	expect_silence(f);
}

static void what_is_lost_twice_is_sent_a_third_time(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	fixture_post(f, send_of(0, 5 * MTU));
	fixture_run(f);
	give_sack(f, 0, 0x1e);
	fixture_post(f, send_of(0, 3 * MTU));
	fixture_run(f);
	fixture_forget(f);
	give_sack(f, 0, 0x7e); /* two that were sent after the copy */
	expect_silence(f);
	give_sack(f, 0, 0xfe);
	expect_sent(f, OP_SEND_FIRST, sent_psn(0));
	expect_silence(f);
}

/* What is told of others is no sign: these may have come since they were told of. */
static void what_is_not_told_of_is_not_lost(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	fixture_post(f, send_of(0, 16 * MTU));
	fixture_run(f);
	fixture_forget(f);
	give_part(f, 0, 8, 0x1e); /* 9 to 12 */
	expect_sent(f, OP_SEND_MIDDLE, sent_psn(8));
	expect_silence(f);
	give_part(f, 0, 0, 0xfe); /* 1 to 7 */
	expect_sent(f, OP_SEND_FIRST, sent_psn(0));
	expect_silence(f);
}

/* The selective acknowledgement beside the first NAK may be lost. A peer that has no memory sends none. */
static void two_naks_alone_say_that_nothing_is_kept(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	fixture_post(f, send_of(0, 4 * MTU));
	fixture_run(f);
	give_sack(f, 0, 0x0e);
	fixture_give(f, ack(sent_psn(3), ACKED));
	expect_done(f, 0, IBV_WC_SUCCESS);
	fixture_post(f, send_of(0, 5 * MTU));
	fixture_run(f);
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(5), NAK_SEQUENCE));
	expect_sent(f, OP_SEND_MIDDLE, sent_psn(5));
	expect_silence(f);
	fixture_give(f, ack(sent_psn(6), NAK_SEQUENCE));
	expect_sent(f, OP_SEND_MIDDLE, sent_psn(6));
	expect_sent(f, OP_SEND_MIDDLE, sent_psn(7));
	expect_sent(f, OP_SEND_LAST, sent_psn(8));
	expect_silence(f);
}

static void nonsense_changes_nothing(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	fixture_post(f, send_of(0, 6 * MTU));
	fixture_run(f);
	fixture_forget(f);
	give_sack(f, 7, 0xff);	 /* of packets that were never sent */
	give_sack(f, -1u, 0xff); /* old */
	fixture_give(f, (struct packet){.opcode = OPCODE_SELECTIVE_ACK,
					.pkey = PKEY_DEFAULT,
					.dest_qpn = f->qp->base.qp_num,
					.psn = sent_psn(0),
					.length = 4});
	expect_silence(f);
	expect_none(f);
	assert_null(f->qp->req.board);
}

/* The peer has forgotten what it told: after the second time-out everything goes again. */
static void a_peer_that_forgets_is_sent_everything(void **state)
{
	struct fixture *f = *state;
	uint32_t again = 0;

	fixture_start_with_uroce(f);
	fixture_post(f, send_of(0, 4 * MTU));
	fixture_run(f);
	give_sack(f, 0, 0x0e);
	fixture_forget(f);
	while (!again && fixture_wait_deadline(f))
		while (!fixture_is_silent(f))
			again |= fixture_sent(f)->packet.psn.v == sent_psn(1).v;
	assert_true(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_comes_early_waits_and_is_done_in_order),
		TEST(a_copy_of_what_waits_is_told_again_and_done_once),
		TEST(other_peers_see_go_back_n),
		TEST(too_far_ahead_is_dropped),
		TEST(a_receiver_that_is_not_ready_keeps_nothing),
		TEST(only_what_is_missing_is_sent_again),
		TEST(two_packets_may_overtake_one),
		TEST(what_is_lost_twice_is_sent_a_third_time),
		TEST(what_is_not_told_of_is_not_lost),
		TEST(two_naks_alone_say_that_nothing_is_kept),
		TEST(nonsense_changes_nothing),
		TEST(a_peer_that_forgets_is_sent_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
