/* SPDX-License-Identifier: BSD-2-Clause */
/* What a stranger can do who is not on the path: he forges the address of the peer, its port and the QPN, sends any
 * packet with a right ICRC, and has to guess PSNs and keys. */
#include <string.h>

#include "fixture.h"
#include "object/early.h"
#include "requests.h"
#include "sim/dice.h"

enum {
	FAR = SELECTIVE_PSNS,
	IN_FLIGHT = 5,
	UDP_HEADERS = 28, /* and those of IPv4 */
};

static struct dice dice = {1};

static struct packet from_uroce(struct packet p)
{
	p.is_uroce = true;
	return p;
}

/* Requests in both directions have been taken, and IN_FLIGHT are on the way. */
static void begin(struct fixture *f)
{
	fixture_start(f, IBV_QPS_RTS);
	for (uint32_t i = 1; i <= 8; i++)
		assert_int_equal(fixture_post_recv(f, i, 64), 0);
	fixture_post(f, send_of(1, 8));
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 8));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		fixture_post(f, send_of(2 + i, 8));
	fixture_run(f);
	fixture_forget(f);
}

static struct packet forged(const struct fixture *f, uint8_t opcode, psn_t at)
{
	static const uint8_t ones[32] = {[0 ... 31] = 0xff};

	return (struct packet){
		.opcode = opcode,
		.pkey = PKEY_DEFAULT,
		.dest_qpn = f->qp->base.qp_num,
		.psn = at,
		.ack_request = dice_chance(&dice, 0.5),
		.congestion = dice_chance(&dice, 0.5),
		.fecn = dice_chance(&dice, 0.5),
		.is_uroce = true,
		.syndrome = (uint8_t)dice_roll(&dice),
		.rkey = (uint32_t)dice_roll(&dice),
		.va = IOVA,
		.dma_length = (uint32_t)dice_below(&dice, 1 << 20),
		.length = 4 * (uint32_t)dice_below(&dice, 8),
		.payload = ones,
	};
}

static psn_t draw_far(void)
{
	return due_psn((uint32_t)dice_between(&dice, 1 + FAR, PSN_MASK + 1 - FAR - 1));
}

/* The requester, the responder, their timers, and what they have to send. */
static void no_packet_out_of_the_window_changes_anything(void **state)
{
	struct requester req;
	struct responder resp;
	struct fixture *f;

	for (int known = 0; known < 2; known++) {
		f = fixture_renew(state);
		begin(f);
		f->qp->resp.peer_is_uroce = known;
		req = f->qp->req;
		resp = f->qp->resp;
		for (uint32_t i = 0; i < 256 * 64; i++) {
			uint8_t opcode = (uint8_t)i;

			if (!opcode_info[opcode].name || (opcode == OPCODE_CNP && !known))
				continue;
			fixture_give(f, forged(f, opcode, draw_far()));
			if (memcmp(&req, &f->qp->req, sizeof(req)) || memcmp(&resp, &f->qp->resp, sizeof(resp)))
				fail_msg("%s has changed the state", opcode_info[opcode].name);
			expect_silence(f);
		}
		expect_none(f);
		assert_int_equal(f->qp->state, IBV_QPS_RTS);
	}
}

/* rows of {packet, the peer is known as a uroce afterwards} */
static void who_knows_the_psn_is_a_uroce(void **state)
{
	const struct {
		struct packet packet;
		bool known;
	} rows[] = {
		{request(OP_SEND_ONLY, due_psn(0), 8), false}, /* a duplicate */
		{request(OP_SEND_ONLY, due_psn(2), 8), false}, {request(OP_SEND_ONLY, due_psn(101), 8), false},
		{request(OP_SEND_ONLY, due_psn(1), 8), true},  {ack(sent_psn(0), ACKED), false},
		{ack(sent_psn(1 + IN_FLIGHT), ACKED), false},  {ack(sent_psn(1), ACKED), true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);

		begin(f);
		fixture_give(f, from_uroce(rows[i].packet));
		assert_int_equal(f->qp->resp.peer_is_uroce, rows[i].known);
		assert_null(f->qp->resp.early);
	}
}

/* A request to answer again names what the peer has asked for before, or would have to: by key and address. */
static void who_asks_for_an_answer_again_knows_the_key(void **state)
{
	struct fixture *f = *state;

	begin(f);
	f->qp->resp.peer_is_uroce = true;
	for (uint32_t n = 1; n <= 2; n++) /* kept from the second time on */
		fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(1), 0, 0, 4 * MTU));
	fixture_forget(f);
	assert_non_null(f->qp->resp.repairs);
	for (uint32_t i = 0; i < 6000; i++) {
		fixture_give(f, forged(f, OPCODE_ANSWER_AGAIN, psn((uint32_t)dice_roll(&dice))));
		fixture_give(f, forged(f, OPCODE_ANSWER_AGAIN, due_psn((uint32_t)dice_below(&dice, 64))));
		expect_silence(f);
	}
}

/* Answers are kept for a peer that repeats a READ, which a stranger cannot. */
static void a_forged_read_begins_nothing(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	begin(f);
	f->qp->resp.peer_is_uroce = true;
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(1), 0, 0, MTU));
	fixture_forget(f);
	p = aimed(f, OP_READ_REQUEST, due_psn(1), 0, 0, MTU);
	p.rkey ^= 0x100;
	fixture_give(f, p);
	expect_silence(f);
	assert_null(f->qp->resp.repairs);
}

static void a_mark_counts_in_sequence_only(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY, due_psn(0), 8);

	begin(f);
	f->now += SEC;
	p.congestion = true;
	fixture_give(f, p);
	expect_ack(f, due_psn(0), ACKED);
	expect_silence(f);
	p.psn = due_psn(1);
	fixture_give(f, p);
	expect_ack(f, due_psn(1), ACKED);
	expect_sent(f, OPCODE_CNP, psn(0)); /* as annex A17 has it */
}

/* That of a uroce has the PSN that it expects. */
static void a_uroce_knows_a_forged_congestion_notification(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY, due_psn(1), 8);
	uint32_t window;

	begin(f);
	f->now += SEC;
	p.is_uroce = p.congestion = true;
	fixture_give(f, p);
	expect_ack(f, due_psn(1), ACKED);
	expect_sent(f, OPCODE_CNP, due_psn(2));
	window = f->qp->req.window;
	fixture_give(f, (struct packet){.opcode = OPCODE_CNP, .pkey = PKEY_DEFAULT, .psn = draw_far()});
	assert_int_equal(f->qp->req.window, window);
	fixture_give(f, (struct packet){.opcode = OPCODE_CNP, .pkey = PKEY_DEFAULT, .psn = sent_psn(1)});
	assert_true(f->qp->req.window < window);
}

/* The event that completes a connection whose RTU is lost. */
static void what_is_not_the_first_packet_establishes_nothing(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTR);
	assert_int_equal(fixture_post_recv(f, 1, 64), 0);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(1), 8));
	fixture_give(f, request(OP_SEND_ONLY, due_psn(-1u), 8));
	assert_int_equal(f->event[IBV_EVENT_COMM_EST], 0);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 8));
	assert_int_equal(f->event[IBV_EVENT_COMM_EST], 1);
}

/* Two ends that do not agree on the first PSN are told so: see strays in engine/cause.c. */
static void before_the_first_packet_any_psn_is_answered(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(FAR + 7), 8));
	expect_ack(f, due_psn(0), NAK_SEQUENCE);
}

/* Of all PSNs: in bytes on the wire, and in packets that the QP sends again. */
static void a_stranger_gets_no_more_than_he_sends(void **state)
{
	uint64_t given = 0, got = 0;
	struct fixture *f;

	for (int known = 0; known < 2; known++) {
		f = fixture_renew(state);
		begin(f);
		f->qp->resp.peer_is_uroce = known;
		for (uint32_t i = 0; i < 100000 && f->qp->state == IBV_QPS_RTS; i++) {
			uint8_t opcode = (uint8_t)i;
			struct packet p = forged(f, opcode, psn((uint32_t)dice_roll(&dice)));

			if (!opcode_info[opcode].name)
				continue;
			given += UDP_HEADERS + packet_bytes(&p);
			f->sents = f->shown = 0;
			fixture_give(f, p);
			for (uint32_t n = 0; n < f->sents; n++)
				got += UDP_HEADERS + packet_bytes(&f->sent[n].packet);
		}
		assert_int_equal(f->qp->state, IBV_QPS_RTS);
		assert_true(f->qp->resent <= 2 * IN_FLIGHT);
	}
	assert_true(got < given / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(no_packet_out_of_the_window_changes_anything),
		TEST(who_knows_the_psn_is_a_uroce),
		TEST(who_asks_for_an_answer_again_knows_the_key),
		TEST(a_forged_read_begins_nothing),
		TEST(a_mark_counts_in_sequence_only),
		TEST(a_uroce_knows_a_forged_congestion_notification),
		TEST(what_is_not_the_first_packet_establishes_nothing),
		TEST(before_the_first_packet_any_psn_is_answered),
		TEST(a_stranger_gets_no_more_than_he_sends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
