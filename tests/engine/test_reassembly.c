/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective retransmission of responses between two uroce: what the requester keeps and asks for again, and what the
 * responder answers again. */
#include <string.h>

#include "engine/reassembly.h"
#include "fixture.h"
#include "object/early.h"
#include "requests.h"

#define PACKETS 12

static struct packet from_uroce(struct packet p)
{
	p.is_uroce = true;
	return p;
}

/* A full response to a READ of many packets, which carries bytes of this value. */
static void give_response(struct fixture *f, uint8_t opcode, uint32_t n, uint8_t value)
{
	struct packet p = from_uroce(response(opcode, sent_psn(n), MTU));

	memset(f->payload, value, MTU);
	fixture_give(f, p);
}

static void give(struct fixture *f, uint32_t n)
{
	give_response(f, n == 1 + PACKETS ? OP_READ_RESPONSE_LAST : OP_READ_RESPONSE_MIDDLE, n, (uint8_t)n);
}

static void give_answer_again(struct fixture *f, uint32_t n)
{
	memset(f->payload, (uint8_t)n, MTU);
	fixture_give(f, from_uroce((struct packet){.opcode = OPCODE_ANSWERED_AGAIN,
						   .pkey = PKEY_DEFAULT,
						   .dest_qpn = f->qp->base.qp_num,
						   .psn = sent_psn(n),
						   .length = MTU}));
}

/* The first gap makes the requester go back. After that it keeps responses. */
static void lose_one(struct fixture *f)
{
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, read_of(1, 2 * MTU));
	fixture_run(f);
	fixture_forget(f);
	give(f, 1);
	expect_sent(f, OP_READ_REQUEST, sent_psn(0));
	fixture_wait(f, MSEC);
	give_response(f, OP_READ_RESPONSE_FIRST, 0, 0);
	give_response(f, OP_READ_RESPONSE_LAST, 1, 1);
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void expect_asked(struct fixture *f, uint32_t n, uint32_t bytes)
{
	const struct sent *s = fixture_sent(f);

	assert_int_equal(s->packet.opcode, OPCODE_ANSWER_AGAIN);
	assert_int_equal(s->packet.psn.v, sent_psn(n).v);
	assert_int_equal(s->packet.dma_length, bytes);
	assert_int_equal(s->packet.va, IOVA + (n - 2) * MTU);
}

/* Posts a READ of PACKETS packets, whose first PSN is the third. */
static void post_read(struct fixture *f)
{
	memset(f->memory, 0xee, PACKETS * MTU);
	fixture_post(f, read_of(2, PACKETS * MTU));
	fixture_run(f);
	fixture_forget(f);
}

static void expect_all(const struct fixture *f)
{
	for (uint32_t i = 0; i < PACKETS * MTU; i++)
		assert_int_equal(f->memory[i], 2 + i / MTU);
}

static void only_what_is_missing_is_asked_for(void **state)
{
	struct fixture *f = *state;

	lose_one(f);
	post_read(f);
	for (uint32_t n = 2; n < 2 + PACKETS; n++) {
		if (n == 4 || n == 5 || n == 8)
			continue;
		give(f, n);
		if (n == 7 || n == 9 || n == 11) /* the third that was sent after it */
			expect_asked(f, n == 7 ? 4 : n == 9 ? 5 : 8, MTU);
		expect_silence(f);
	}
	expect_none(f);
	give_answer_again(f, 5);
	give_answer_again(f, 8);
	give_answer_again(f, 8);
	expect_none(f);
	give_answer_again(f, 4);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_all(f);
	expect_silence(f);
	assert_null(f->qp->req.answers);
}

static void what_overtakes_a_little_is_no_loss(void **state)
{
	struct fixture *f = *state;

	lose_one(f);
	post_read(f);
	give(f, 4);
	give(f, 3);
	give(f, 2);
	for (uint32_t n = 5; n < 2 + PACKETS; n++)
		give(f, n);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_all(f);
	expect_silence(f);
}

/* What the peer did not answer again before long is asked for as a whole, as by other requesters. */
static void a_peer_that_does_not_know_how_is_asked_for_all(void **state)
{
	struct fixture *f = *state;
	bool again = false;

	lose_one(f);
	post_read(f);
	for (uint32_t n = 3; n < 2 + PACKETS; n++)
		give(f, n);
	expect_asked(f, 2, MTU);
	while (!again && fixture_wait_deadline(f))
		while (!fixture_is_silent(f))
			again |= fixture_sent(f)->packet.opcode == OP_READ_REQUEST;
	assert_true(again);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
}

/* All of it is lost, and so is what would show that. */
static void the_last_response_is_asked_for_when_none_comes(void **state)
{
	struct fixture *f = *state;

	lose_one(f);
	f->qp->req.reads->works = true;
	post_read(f);
	give(f, 2);
	fixture_wait_deadline(f);
	expect_asked(f, 1 + PACKETS, MTU);
	give_answer_again(f, 1 + PACKETS);
	expect_asked(f, 3, (PACKETS - 4) * MTU);
	for (uint32_t n = 3; n < 1 + PACKETS; n++)
		give_answer_again(f, n);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_all(f);
}

static void an_atomic_is_answered_again_too(void **state)
{
	struct fixture *f = *state;

	lose_one(f);
	fixture_post(f, add_of(2, 5));
	post_read(f);
	for (uint32_t n = 3; n < 7; n++)
		give(f, n);
	assert_int_equal(fixture_sent(f)->packet.opcode, OPCODE_ANSWER_AGAIN);
	memcpy(f->payload, "\0\0\0\0\0\0\1\2", 8);
	fixture_give(f, from_uroce((struct packet){.opcode = OPCODE_ANSWERED_AGAIN,
						   .pkey = PKEY_DEFAULT,
						   .dest_qpn = f->qp->base.qp_num,
						   .psn = sent_psn(2),
						   .length = 8}));
	expect_done(f, 2, IBV_WC_SUCCESS);
}

static void other_peers_see_go_back_n(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, read_of(1, 4 * MTU));
	fixture_run(f);
	fixture_forget(f);
	fixture_give(f, response(OP_READ_RESPONSE_MIDDLE, sent_psn(1), MTU));
	expect_sent(f, OP_READ_REQUEST, sent_psn(0));
	fixture_wait(f, MSEC);
	fixture_give(f, response(OP_READ_RESPONSE_MIDDLE, sent_psn(2), MTU));
	expect_silence(f); /* once for each gap */
	assert_null(f->qp->req.reads);
	give_answer_again(f, 0);
	expect_none(f);
}

/* ---- the responder ---- */

/* Of a READ that began with packet `first`. */
static void ask_again(struct fixture *f, uint32_t first, uint32_t n, uint32_t bytes)
{
	fixture_give(f, from_uroce((struct packet){.opcode = OPCODE_ANSWER_AGAIN,
						   .pkey = PKEY_DEFAULT,
						   .dest_qpn = f->qp->base.qp_num,
						   .psn = due_psn(n),
						   .rkey = f->mr->base.rkey,
						   .va = IOVA + (n - first) * MTU,
						   .dma_length = bytes}));
}

static void give_read(struct fixture *f, uint32_t n, uint32_t bytes)
{
	fixture_give(f, from_uroce(aimed(f, OP_READ_REQUEST, due_psn(n), 0, 0, bytes)));
}

/* READs are ordered after each other: what has been answered is not read again. */
static void the_same_bytes_are_answered_again(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	give_read(f, 0, MTU);
	give_read(f, 0, MTU); /* from now on, answers are kept */
	memset(f->memory, 7, 4 * MTU);
	give_read(f, 1, 4 * MTU);
	fixture_forget(f);
	memset(f->memory, 8, 4 * MTU);
	ask_again(f, 1, 2, 2 * MTU);
	for (uint32_t n = 2; n < 4; n++) {
		const struct sent *s = fixture_sent(f);

		assert_int_equal(s->packet.opcode, OPCODE_ANSWERED_AGAIN);
		assert_int_equal(s->packet.psn.v, due_psn(n).v);
		assert_int_equal(s->packet.length, MTU);
		assert_int_equal(s->payload[0], 7);
	}
	expect_silence(f);
	give_read(f, 1, 4 * MTU); /* the requester goes back: it is read again */
	assert_int_equal(expect_sent(f, OP_READ_RESPONSE_FIRST, due_psn(1))->payload[0], 8);
}

static void what_is_not_kept_is_not_answered_again(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	give_read(f, 0, MTU);
	fixture_forget(f);
	ask_again(f, 0, 0, MTU);
	expect_silence(f);
	ask_again(f, -5u, -5u, UINT32_MAX);
	expect_silence(f);
	give_read(f, 0, MTU);
	fixture_forget(f);
	ask_again(f, 0, 0, UINT32_MAX);
	expect_silence(f);
	ask_again(f, 0, 0, MTU);
	assert_int_equal(fixture_sent(f)->packet.opcode, OPCODE_ANSWERED_AGAIN);
	expect_silence(f);
}

/* A request that has not come: the requester must send it again. */
static void what_has_not_been_asked_is_a_gap(void **state)
{
	struct fixture *f = *state;

	fixture_start_with_uroce(f);
	ask_again(f, 3, 3, MTU);
	expect_ack(f, due_psn(0), NAK_SEQUENCE);
}

static void answers_to_other_peers_are_not_kept(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(0), 0, 0, MTU));
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(0), 0, 0, MTU));
	assert_null(f->qp->resp.repairs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_what_is_missing_is_asked_for),
		TEST(what_overtakes_a_little_is_no_loss),
		TEST(a_peer_that_does_not_know_how_is_asked_for_all),
		TEST(the_last_response_is_asked_for_when_none_comes),
		TEST(an_atomic_is_answered_again_too),
		TEST(other_peers_see_go_back_n),
		TEST(the_same_bytes_are_answered_again),
		TEST(what_is_not_kept_is_not_answered_again),
		TEST(what_has_not_been_asked_is_a_gap),
		TEST(answers_to_other_peers_are_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
