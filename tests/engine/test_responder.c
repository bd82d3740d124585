/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder, rule by rule: which packets it accepts, and how it answers each (IBTA 9.7.4, 9.7.5). */
#include <string.h>

#include "fixture.h"

enum answer {
	ANSWER_NONE,
	ANSWER_ACK,	 /* of the PSN that came last in order */
	ANSWER_SEQUENCE, /* NAK, naming the PSN that is due */
	ANSWER_RNR,
	ANSWER_INVALID,
	ANSWER_ACCESS,
};

static void expect_answer(struct fixture *f, enum answer answer, psn_t due, int row)
{
	static const uint8_t syndrome[] = {
		[ANSWER_ACK] = ACKED,
		[ANSWER_SEQUENCE] = NAK_SEQUENCE,
		[ANSWER_RNR] = SYNDROME_RNR | 12,
		[ANSWER_INVALID] = NAK_INVALID_REQUEST,
		[ANSWER_ACCESS] = NAK_REMOTE_ACCESS,
	};
	psn_t at = answer == ANSWER_ACK ? psn_add(due, -1u) : due;

	if (answer != ANSWER_NONE)
		expect_ack_(f, at, syndrome[answer], row);
	expect_silence_(f, row);
}

/* rows of {PSN that comes, answer, PSNs that are due after it} */
static void psns_are_taken_in_order(void **state)
{
	static const struct {
		int32_t psn;
		enum answer answer;
		uint32_t due;
	} rows[] = {
		{0, ANSWER_ACK, 1},	 {0, ANSWER_ACK, 1},	  /* duplicate: acknowledged again */
		{2, ANSWER_SEQUENCE, 1},			  /* a gap: one NAK ... */
		{3, ANSWER_NONE, 1},				  /* ... and silence */
		{2, ANSWER_NONE, 1},	 {0, ANSWER_ACK, 1},	  /* a duplicate is acknowledged in a gap as well */
		{1, ANSWER_ACK, 2},	 {3, ANSWER_SEQUENCE, 2}, /* a new gap: a new NAK */
		{2, ANSWER_ACK, 3},	 {3, ANSWER_ACK, 4},	  /* the PSN has wrapped */
		{-1, ANSWER_ACK, 4},	 {4, ANSWER_ACK, 5},
	};
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn((uint32_t)rows[i].psn), 4, 0, 4));
		expect_answer(f, rows[i].answer, due_psn(rows[i].due), (int)i);
		assert_int_equal(f->qp->resp.expected.v, due_psn(rows[i].due).v);
	}
}

static void half_the_psns_are_past_and_half_are_future(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(0x7fffff), 4, 0, 4));
	expect_ack(f, due_psn(0), NAK_SEQUENCE);
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(0x800000), 4, 0, 4));
	expect_ack(f, due_psn(-1u), ACKED);
}

/* rows of {operation inside which it comes, operation that comes, answer} */
static void operations_come_in_sequence(void **state)
{
	enum { NOTHING = 0xff };
	static const struct {
		uint8_t before, comes;
		enum answer answer;
	} rows[] = {
		{NOTHING, OP_SEND_FIRST, ANSWER_ACK},
		{NOTHING, OP_SEND_ONLY, ANSWER_ACK},
		{NOTHING, OP_SEND_ONLY_IMM, ANSWER_ACK},
		{NOTHING, OP_SEND_MIDDLE, ANSWER_INVALID},
		{NOTHING, OP_SEND_LAST, ANSWER_INVALID},
		{NOTHING, OP_SEND_LAST_IMM, ANSWER_INVALID},
		{NOTHING, OP_SEND_LAST_INV, ANSWER_INVALID},
		{NOTHING, OP_WRITE_FIRST, ANSWER_ACK},
		{NOTHING, OP_WRITE_ONLY, ANSWER_ACK},
		{NOTHING, OP_WRITE_ONLY_IMM, ANSWER_ACK},
		{NOTHING, OP_WRITE_MIDDLE, ANSWER_INVALID},
		{NOTHING, OP_WRITE_LAST, ANSWER_INVALID},
		{NOTHING, OP_WRITE_LAST_IMM, ANSWER_INVALID},
		{OP_SEND_FIRST, OP_SEND_MIDDLE, ANSWER_ACK},
		{OP_SEND_FIRST, OP_SEND_LAST, ANSWER_ACK},
		{OP_SEND_FIRST, OP_SEND_LAST_IMM, ANSWER_ACK},
		{OP_SEND_FIRST, OP_SEND_FIRST, ANSWER_INVALID},
		{OP_SEND_FIRST, OP_SEND_ONLY, ANSWER_INVALID},
		{OP_SEND_FIRST, OP_WRITE_MIDDLE, ANSWER_INVALID},
		{OP_SEND_FIRST, OP_WRITE_LAST, ANSWER_INVALID},
		{OP_SEND_FIRST, OP_WRITE_FIRST, ANSWER_INVALID},
		{OP_SEND_FIRST, OP_WRITE_ONLY, ANSWER_INVALID},
		{OP_SEND_FIRST, OP_READ_REQUEST, ANSWER_INVALID},
		{OP_SEND_FIRST, OP_FETCH_ADD, ANSWER_INVALID},
		{OP_WRITE_FIRST, OP_WRITE_MIDDLE, ANSWER_ACK},
		{OP_WRITE_FIRST, OP_WRITE_FIRST, ANSWER_INVALID},
		{OP_WRITE_FIRST, OP_WRITE_ONLY, ANSWER_INVALID},
		{OP_WRITE_FIRST, OP_SEND_MIDDLE, ANSWER_INVALID},
		{OP_WRITE_FIRST, OP_SEND_LAST, ANSWER_INVALID},
		{OP_WRITE_FIRST, OP_SEND_ONLY, ANSWER_INVALID},
		{OP_WRITE_FIRST, OP_READ_REQUEST, ANSWER_INVALID},
		{OP_WRITE_FIRST, OP_COMPARE_SWAP, ANSWER_INVALID},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool full = !(opcode_info[rows[i].comes].flags & IS_LAST);
		bool write = opcode_info[rows[i].comes].flags & IS_WRITE;
		uint32_t n = rows[i].before != NOTHING;
		struct fixture *f = fixture_renew(state);

		fixture_start(f, IBV_QPS_RTS);
		fixture_post_recv(f, 1, 4096);
		if (n)
			fixture_give(f, aimed(f, rows[i].before, due_psn(0), MTU, 0, 3 * MTU));
		fixture_forget(f);
		fixture_give(f, aimed(f, rows[i].comes, due_psn(n), full ? MTU : 4, 0, write && !full ? 4 : 3 * MTU));
		expect_answer(f, rows[i].answer, rows[i].answer == ANSWER_ACK ? due_psn(n + 1) : due_psn(n), (int)i);
		assert_int_equal(f->qp->state, rows[i].answer == ANSWER_ACK ? IBV_QPS_RTS : IBV_QPS_ERR);
		assert_int_equal(f->event[IBV_EVENT_QP_REQ_ERR], rows[i].answer == ANSWER_ACK ? 0 : 1);
	}
}

/* rows of {operation, bytes of it, bytes announced, answer}: first packets of a message, path MTU 256 */
static void lengths_are_right(void **state)
{
	static const struct {
		uint8_t operation;
		uint32_t length, announced;
		enum answer answer;
	} rows[] = {
		{OP_SEND_FIRST, MTU, 0, ANSWER_ACK},
		{OP_SEND_FIRST, MTU - 1, 0, ANSWER_INVALID},
		{OP_SEND_FIRST, MTU + 1, 0, ANSWER_INVALID},
		{OP_SEND_FIRST, 0, 0, ANSWER_INVALID},
		{OP_SEND_ONLY, 0, 0, ANSWER_ACK},
		{OP_SEND_ONLY, MTU, 0, ANSWER_ACK},
		{OP_SEND_ONLY, MTU + 1, 0, ANSWER_INVALID},
		{OP_WRITE_FIRST, MTU, MTU + 1, ANSWER_ACK},
		{OP_WRITE_FIRST, MTU, MTU, ANSWER_INVALID}, /* nothing left for the last */
		{OP_WRITE_FIRST, MTU, MTU - 1, ANSWER_INVALID},
		{OP_WRITE_FIRST, MTU - 1, 2 * MTU, ANSWER_INVALID},
		{OP_WRITE_FIRST, MTU, (1u << 31) + 1, ANSWER_INVALID},
		{OP_WRITE_ONLY, 10, 10, ANSWER_ACK},
		{OP_WRITE_ONLY, 10, 9, ANSWER_INVALID},
		{OP_WRITE_ONLY, 10, 11, ANSWER_INVALID},
		{OP_WRITE_ONLY, 0, 0, ANSWER_ACK},
		{OP_WRITE_ONLY, MTU + 1, MTU + 1, ANSWER_INVALID},
		{OP_READ_REQUEST, 0, (1u << 31) + 1, ANSWER_INVALID},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);

		fixture_start(f, IBV_QPS_RTS);
		fixture_post_recv(f, 1, 4096);
		fixture_give(f, aimed(f, rows[i].operation, due_psn(0), rows[i].length, 0, rows[i].announced));
		expect_answer(f, rows[i].answer, due_psn(rows[i].answer == ANSWER_ACK), (int)i);
	}
}

static void the_last_packet_has_bytes(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 4096);
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU));
	fixture_forget(f);
	fixture_give(f, request(OP_SEND_LAST, due_psn(1), 0));
	expect_ack(f, due_psn(1), NAK_INVALID_REQUEST);
	expect_taken(f, 1, IBV_WC_REM_INV_REQ_ERR);
}

static void a_write_is_as_long_as_announced(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_WRITE_FIRST, due_psn(0), MTU, 0, MTU + 10));
	fixture_forget(f);
	fixture_give(f, request(OP_WRITE_LAST, due_psn(1), 11));
	expect_ack(f, due_psn(1), NAK_INVALID_REQUEST);
	assert_int_equal(f->event[IBV_EVENT_QP_REQ_ERR], 1);
	assert_int_equal(f->memory[MTU], 0);
}

/* rows of {what is wrong with the region, answer}, for each kind of access */
static void keys_bounds_and_rights_are_checked(void **state)
{
	enum wrong { RIGHT, KEY, TAG, ZERO_KEY, DOMAIN, BEFORE, BEHIND, WRAP, RIGHTS, WRONGS };
	static const uint8_t operations[] = {OP_WRITE_ONLY, OP_WRITE_ONLY_IMM, OP_READ_REQUEST, OP_FETCH_ADD,
					     OP_COMPARE_SWAP};

	for (size_t o = 0; o < ARRAY_SIZE(operations); o++)
		for (enum wrong wrong = RIGHT; wrong < WRONGS; wrong++) {
			bool write = opcode_info[operations[o]].flags & IS_WRITE;
			struct fixture *f = fixture_renew(state);
			struct packet p;

			fixture_start(f, IBV_QPS_RTS);
			fixture_post_recv(f, 1, 64);
			p = aimed(f, operations[o], due_psn(0), write ? 8 : 0, 16, 8);
			p.rkey ^= wrong == KEY ? 0x100000 : wrong == TAG ? 1 : 0;
			p.rkey = wrong == ZERO_KEY ? 0
				 : wrong == DOMAIN ? f->foreign->base.rkey
				 : wrong == RIGHTS ? f->plain->base.rkey
						   : p.rkey;
			p.va = wrong == BEFORE	 ? IOVA - 8
			       : wrong == BEHIND ? IOVA + MEMORY
			       : wrong == WRAP	 ? -8ull
						 : p.va;
			fixture_give(f, p);
			if (wrong == RIGHT) {
				assert_int_equal(f->qp->state, IBV_QPS_RTS);
			} else {
				expect_answer(f, ANSWER_ACCESS, due_psn(0), (int)(o * WRONGS + wrong));
				assert_int_equal(f->qp->state, IBV_QPS_ERR);
				assert_int_equal(f->event[IBV_EVENT_QP_ACCESS_ERR], 1);
				for (int i = 0; i < MEMORY; i++)
					assert_int_equal(f->memory[i], 0);
				/* IBTA 11.6.2: the receive of a WRITE with immediate that may not write */
				expect_taken(f, 1,
					     operations[o] == OP_WRITE_ONLY_IMM ? IBV_WC_LOC_ACCESS_ERR
										: IBV_WC_WR_FLUSH_ERR);
			}
		}
}

static void a_key_of_no_bytes_is_not_looked_at(void **state)
{
	static const uint8_t operations[] = {OP_WRITE_ONLY, OP_READ_REQUEST};
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	for (uint32_t i = 0; i < ARRAY_SIZE(operations); i++) {
		struct packet p = request(operations[i], due_psn(i), 0);

		p.rkey = 0x12345678;
		fixture_give(f, p);
		assert_int_equal(f->qp->state, IBV_QPS_RTS);
	}
	expect_ack(f, due_psn(0), ACKED);
	assert_int_equal(expect_sent(f, OP_READ_RESPONSE_ONLY, due_psn(1))->packet.length, 0);
}

/* rows of {operation, access flag of the QP that it needs} */
static void the_qp_has_to_allow_it(void **state)
{
	static const struct {
		uint8_t operation;
		unsigned needs;
	} rows[] = {
		{OP_WRITE_ONLY, IBV_ACCESS_REMOTE_WRITE},  {OP_WRITE_ONLY_IMM, IBV_ACCESS_REMOTE_WRITE},
		{OP_WRITE_FIRST, IBV_ACCESS_REMOTE_WRITE}, {OP_READ_REQUEST, IBV_ACCESS_REMOTE_READ},
		{OP_FETCH_ADD, IBV_ACCESS_REMOTE_ATOMIC},  {OP_COMPARE_SWAP, IBV_ACCESS_REMOTE_ATOMIC},
	};
	const unsigned all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int allowed = 0; allowed < 2; allowed++) {
			bool write = opcode_info[rows[i].operation].flags & IS_WRITE;
			uint32_t length = rows[i].operation == OP_WRITE_FIRST ? MTU : write ? 8 : 0;
			struct fixture *f = fixture_renew(state);

			f->attr.qp_access_flags = allowed ? rows[i].needs : all & ~rows[i].needs;
			fixture_start(f, IBV_QPS_RTS);
			fixture_post_recv(f, 1, 64);
			fixture_give(f, aimed(f, rows[i].operation, due_psn(0), length, 16,
					      rows[i].operation == OP_WRITE_FIRST ? 2 * MTU : 8));
			assert_int_equal(f->qp->state, allowed ? IBV_QPS_RTS : IBV_QPS_ERR);
			if (!allowed)
				expect_answer(f, ANSWER_INVALID, due_psn(0), (int)i);
		}
}

static void without_a_receive_the_sender_waits(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 8));
	expect_ack(f, due_psn(0), SYNDROME_RNR | 12);
	/* those behind it get no answer, until it comes again */
	fixture_give(f, request(OP_SEND_ONLY, due_psn(1), 8));
	expect_silence(f);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 8));
	expect_ack(f, due_psn(0), SYNDROME_RNR | 12);
	fixture_post_recv(f, 9, 8);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 8));
	expect_ack(f, due_psn(0), ACKED);
	assert_int_equal(expect_taken(f, 9, IBV_WC_SUCCESS).byte_len, 8);
	/* a WRITE with immediate needs one with its last packet only */
	fixture_give(f, aimed(f, OP_WRITE_FIRST, due_psn(1), MTU, 0, MTU + 1));
	expect_ack(f, due_psn(1), ACKED);
	fixture_give(f, request(OP_WRITE_LAST_IMM, due_psn(2), 1));
	expect_ack(f, due_psn(2), SYNDROME_RNR | 12);
	fixture_post_recv(f, 10, 0);
	fixture_give(f, request(OP_WRITE_LAST_IMM, due_psn(2), 1));
	expect_ack(f, due_psn(2), ACKED);
	assert_int_equal(expect_taken(f, 10, IBV_WC_SUCCESS).byte_len, MTU + 1);
}

static void a_message_too_long_for_its_receive_fails_both(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, MTU + 10);
	fixture_post_recv(f, 2, 64);
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU));
	fixture_forget(f);
	fixture_give(f, request(OP_SEND_LAST, due_psn(1), 11));
	expect_ack(f, due_psn(1), NAK_INVALID_REQUEST);
	expect_taken(f, 1, IBV_WC_LOC_LEN_ERR);
	expect_taken(f, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->event[IBV_EVENT_QP_REQ_ERR], 1);
	assert_int_equal(f->memory[MEMORY / 2 + MTU], 0);
}

static void a_receive_with_a_wrong_key_is_an_operation_error(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv_to(f, 1, (struct ibv_sge){IOVA, 64, 0x77});
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 8));
	expect_ack(f, due_psn(0), NAK_REMOTE_OPERATION);
	expect_taken(f, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

static void acks_are_coalesced_unless_asked_for(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	f->delay_ack = true;
	for (uint32_t i = 0; i < 3; i++)
		fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(i), 4, 0, 4));
	expect_silence(f);
	f->delay_ack = false;
	fixture_run(f);
	expect_ack(f, due_psn(2), ACKED);
	expect_silence(f);
	/* nobody asks: an ACK comes at times all the same */
	for (uint32_t i = 3; i < 67; i++) {
		struct packet p = aimed(f, OP_WRITE_ONLY, due_psn(i), 4, 0, 4);

		p.ack_request = false;
		fixture_give(f, p);
	}
	assert_true(f->sents - f->shown >= 1 && f->sents - f->shown <= 16);
}

static void the_msn_counts_messages(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 4; i++)
		fixture_post_recv(f, i, 4096);
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU));
	assert_int_equal(expect_sent(f, OP_ACKNOWLEDGE, due_psn(0))->packet.msn, 0);
	fixture_give(f, request(OP_SEND_MIDDLE, due_psn(1), MTU));
	assert_int_equal(expect_sent(f, OP_ACKNOWLEDGE, due_psn(1))->packet.msn, 0);
	fixture_give(f, request(OP_SEND_LAST, due_psn(2), 5));
	assert_int_equal(expect_sent(f, OP_ACKNOWLEDGE, due_psn(2))->packet.msn, 1);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(3), 0, 0, 2 * MTU));
	assert_int_equal(expect_sent(f, OP_READ_RESPONSE_FIRST, due_psn(3))->packet.msn, 2);
	assert_int_equal(expect_sent(f, OP_READ_RESPONSE_LAST, due_psn(4))->packet.msn, 2);
	fixture_give(f, aimed(f, OP_FETCH_ADD, due_psn(5), 0, 0, 0));
	assert_int_equal(expect_sent(f, OP_ATOMIC_ACKNOWLEDGE, due_psn(5))->packet.msn, 3);
	/* a duplicate does not count */
	fixture_give(f, request(OP_SEND_LAST, due_psn(2), 5));
	assert_int_equal(fixture_sent(f)->packet.msn, 3);
	f->qp->resp.msn = PSN_MASK;
	fixture_give(f, request(OP_SEND_ONLY, due_psn(6), 5));
	assert_int_equal(expect_sent(f, OP_ACKNOWLEDGE, due_psn(6))->packet.msn, 0);
}

static void a_read_is_answered_packet_by_packet(void **state)
{
	struct fixture *f = *state;
	const struct sent *s;

	for (int i = 0; i < MEMORY; i++)
		f->memory[i] = (uint8_t)(i * 7 + (i >> 8));
	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(0), 0, 100, 3 * MTU + 1));
	for (uint32_t i = 0; i < 4; i++) {
		static const uint8_t opcodes[] = {OP_READ_RESPONSE_FIRST, OP_READ_RESPONSE_MIDDLE,
						  OP_READ_RESPONSE_MIDDLE, OP_READ_RESPONSE_LAST};

		s = expect_sent(f, opcodes[i], due_psn(i));
		assert_int_equal(s->packet.length, i < 3 ? MTU : 1);
		assert_memory_equal(s->payload, f->memory + 100 + i * MTU, s->packet.length);
	}
	expect_silence(f); /* the response acknowledges, too */
	/* the next request is behind all of the response */
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(4), 0, 0, 1));
	assert_int_equal(expect_sent(f, OP_READ_RESPONSE_ONLY, due_psn(4))->packet.length, 1);
}

static void a_duplicate_read_is_read_again(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(0), 0, 0, 2 * MTU));
	fixture_forget(f);
	memset(f->memory, 0x33, sizeof(f->memory));
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(0), 0, 0, 2 * MTU));
	assert_int_equal(expect_sent(f, OP_READ_RESPONSE_FIRST, due_psn(0))->payload[7], 0x33);
	expect_sent(f, OP_READ_RESPONSE_LAST, due_psn(1));
	/* or only its second half */
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(1), 0, MTU, MTU));
	expect_sent(f, OP_READ_RESPONSE_ONLY, due_psn(1));
	/* but not beyond what has been */
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(1), 0, MTU, 2 * MTU));
	expect_silence(f);
}

/* A stranger who knows the addresses can send it, and so can the network, late: after ibv_dereg_mr(3). */
static void a_duplicate_read_that_is_none_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(0), 0, 0, 2 * MTU));
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(2), 4, 0, 4));
	fixture_forget(f);
	p = aimed(f, OP_READ_REQUEST, due_psn(1), 0, MTU, MTU);
	p.rkey ^= 1;
	fixture_give(f, p);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(1), 0, 0, MTU));   /* other bytes than at first */
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(2), 0, 0, 4));     /* that was no READ */
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(-1u), 0, 0, MTU)); /* before all */
	expect_silence(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	mr_deregister(f->mr);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(0), 0, 0, 2 * MTU));
	expect_ack(f, due_psn(0), NAK_REMOTE_ACCESS); /* the peer may still wait for it */
	expect_silence(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
}

static void the_ack_of_a_duplicate_does_not_stand_for_a_response(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(0), 4, 0, 4));
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(1), 4, 0, 4));
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(2), 0, 0, 2 * MTU));
	fixture_forget(f);
	/* the response has been lost, and the peer has gone back */
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(0), 4, 0, 4));
	expect_ack(f, due_psn(1), SYNDROME_ACK | SYNDROME_NO_CREDITS);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(2), 0, 0, 2 * MTU));
	expect_sent(f, OP_READ_RESPONSE_FIRST, due_psn(2));
}

static uint64_t word_at(const struct fixture *f, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, f->memory + offset, sizeof(word));
	return word;
}

static void atomics_are_executed_once(void **state)
{
	struct fixture *f = *state;
	struct packet add, swap;

	fixture_start(f, IBV_QPS_RTS);
	add = aimed(f, OP_FETCH_ADD, due_psn(0), 0, 64, 0);
	add.swap_add = 5;
	for (int i = 0; i < 3; i++) {
		fixture_give(f, add);
		assert_int_equal(expect_sent(f, OP_ATOMIC_ACKNOWLEDGE, due_psn(0))->packet.original, 0);
		assert_int_equal(word_at(f, 64), 5);
	}
	swap = aimed(f, OP_COMPARE_SWAP, due_psn(1), 0, 64, 0);
	swap.compare = 5;
	swap.swap_add = 77;
	fixture_give(f, swap);
	assert_int_equal(expect_sent(f, OP_ATOMIC_ACKNOWLEDGE, due_psn(1))->packet.original, 5);
	assert_int_equal(word_at(f, 64), 77);
	swap.psn = due_psn(2); /* does not match any more */
	fixture_give(f, swap);
	assert_int_equal(expect_sent(f, OP_ATOMIC_ACKNOWLEDGE, due_psn(2))->packet.original, 77);
	/* the last max_dest_rd_atomic of them are remembered */
	swap.psn = due_psn(1);
	fixture_give(f, swap);
	assert_int_equal(expect_sent(f, OP_ATOMIC_ACKNOWLEDGE, due_psn(1))->packet.original, 5);
	fixture_give(f, add);
	assert_int_equal(expect_sent(f, OP_ATOMIC_ACKNOWLEDGE, due_psn(0))->packet.original, 0);
	assert_int_equal(word_at(f, 64), 77);
}

static void an_atomic_is_aligned(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_FETCH_ADD, due_psn(0), 0, 4, 0));
	expect_ack(f, due_psn(0), NAK_INVALID_REQUEST);
}

/* That many arrive before the engine runs. */
static void give_reads_together(struct fixture *f, uint32_t count)
{
	lock_take(&f->qp->lock);
	for (uint32_t i = 0; i < count; i++) {
		struct packet p = aimed(f, OP_READ_REQUEST, due_psn(i), 0, 0, 8);

		engine_receive(f->qp, &p, &fixture_there, f->now, NULL);
	}
	lock_drop(&f->qp->lock);
	fixture_run(f);
}

static void reads_and_atomics_are_as_many_as_agreed(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	give_reads_together(f, 5); /* max_dest_rd_atomic is 4 */
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	/* what was asked for before still comes, or not; the NAK names the one too many */
	while (f->shown + 1 < f->sents)
		assert_int_equal(fixture_sent(f)->packet.opcode, OP_READ_RESPONSE_ONLY);
	expect_ack(f, due_psn(4), NAK_INVALID_REQUEST);
}

static void without_resources_reads_are_refused(void **state)
{
	struct fixture *f = *state;

	f->attr.max_dest_rd_atomic = 0;
	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(0), 0, 0, 8));
	expect_ack(f, due_psn(0), NAK_INVALID_REQUEST);
}

static void duplicates_do_not_take_the_places_of_new_requests(void **state)
{
	struct fixture *f = *state;

	f->attr.max_dest_rd_atomic = 1;
	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_READ_REQUEST, due_psn(0), 0, 0, 8));
	fixture_forget(f);
	give_reads_together(f, 2); /* the old one again, then the next */
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	expect_sent(f, OP_READ_RESPONSE_ONLY, due_psn(1));
}

static void immediate_data_and_solicited_events_arrive(void **state)
{
	struct fixture *f = *state;
	struct packet p;
	struct cqe c;

	fixture_start(f, IBV_QPS_RTS);
	for (uint64_t i = 1; i <= 4; i++)
		fixture_post_recv(f, i, 64);
	cq_request(&f->recv_cq, true);
	p = request(OP_SEND_ONLY_IMM, due_psn(0), 4);
	p.imm = 0x01020304;
	fixture_give(f, p);
	c = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(c.imm, 0x01020304);
	assert_int_equal(c.flags, IBV_WC_WITH_IMM);
	assert_int_equal(c.opcode, IBV_WC_RECV);
	assert_int_equal(f->cq_events, 0);
	p = request(OP_SEND_ONLY, due_psn(1), 4);
	p.solicited = true;
	fixture_give(f, p);
	assert_int_equal(expect_taken(f, 2, IBV_WC_SUCCESS).flags, 0);
	assert_int_equal(f->cq_events, 1);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(2), 4));
	assert_int_equal(f->cq_events, 1); /* armed once, one event */
	p = aimed(f, OP_WRITE_ONLY_IMM, due_psn(3), 4, 0, 4);
	p.imm = 7;
	fixture_give(f, p);
	expect_taken(f, 3, IBV_WC_SUCCESS);
	c = expect_taken(f, 4, IBV_WC_SUCCESS);
	assert_int_equal(c.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(c.imm, 7);
	assert_int_equal(c.byte_len, 4);
}

static void an_error_is_a_solicited_event(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 4);
	cq_request(&f->recv_cq, true);
	fixture_move(f, IBV_QPS_ERR);
	assert_int_equal(f->cq_events, 1);
}

static void invalidation_kills_the_key(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 64);
	p = request(OP_SEND_ONLY_INV, due_psn(0), 4);
	p.inv_rkey = f->rkey;
	fixture_give(f, p);
	assert_int_equal(expect_taken(f, 1, IBV_WC_SUCCESS).flags, IBV_WC_WITH_INV);
	expect_ack(f, due_psn(0), ACKED);
	p = aimed(f, OP_WRITE_ONLY, due_psn(1), 4, 0, 4);
	p.rkey = f->rkey;
	fixture_give(f, p);
	expect_ack(f, due_psn(1), NAK_REMOTE_ACCESS);
}

static void what_ibv_reg_mr_made_cannot_be_invalidated(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 64);
	p = request(OP_SEND_ONLY_INV, due_psn(0), 4);
	p.inv_rkey = f->mr->base.rkey;
	fixture_give(f, p);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_non_null(mr_get(&f->hca, f->mr->base.rkey));
	mr_put(f->mr);
}

/* rows of what does not belong to this QP: no answer, no change */
static void strangers_are_ignored(void **state)
{
	struct fixture *f = *state;
	struct packet p = aimed(f, OP_WRITE_ONLY, due_psn(0), 4, 0, 4), q;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give_from(f, p, &fixture_elsewhere);
	q = p;
	q.pkey = 0x7ffe;
	fixture_give(f, q);
	q = p;
	q.opcode = TRANSPORT_UC | OP_WRITE_ONLY;
	fixture_give(f, q);
	q.opcode = TRANSPORT_UD | OP_SEND_ONLY;
	fixture_give(f, q);
	expect_silence(f);
	assert_int_equal(f->qp->resp.expected.v, due_psn(0).v);
	/* a key of limited membership is of the same partition */
	q = p;
	q.pkey = 0x7fff;
	fixture_give(f, q);
	expect_ack(f, due_psn(0), ACKED);
}

/* rows of {state, whether requests are taken} */
static void requests_are_taken_from_rtr_on(void **state)
{
	static const struct {
		enum ibv_qp_state state;
		bool takes;
	} rows[] = {
		{IBV_QPS_RESET, false}, {IBV_QPS_INIT, false}, {IBV_QPS_RTR, true},
		{IBV_QPS_RTS, true},	{IBV_QPS_SQD, true},   {IBV_QPS_ERR, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);

		fixture_start(f, rows[i].state);
		fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(0), 4, 0, 4));
		assert_int_equal(!fixture_is_silent(f), rows[i].takes);
		assert_int_equal(f->memory[1] == 4, rows[i].takes);
		assert_int_equal(f->event[IBV_EVENT_COMM_EST], rows[i].state == IBV_QPS_RTR);
	}
}

static void congestion_is_reported_now_and_then(void **state)
{
	struct fixture *f = *state;
	struct packet p = aimed(f, OP_WRITE_ONLY, due_psn(0), 4, 0, 4);
	uint32_t seen = 0;

	fixture_start(f, IBV_QPS_RTS);
	p.congestion = true;
	for (uint32_t i = 0; i < 20; i++) {
		p.psn = due_psn(i);
		fixture_give(f, p);
	}
	while (!fixture_is_silent(f)) {
		const struct sent *s = fixture_sent(f);

		seen += s->packet.opcode == OPCODE_CNP;
		if (s->packet.opcode == OPCODE_CNP) {
			assert_true(s->packet.becn);
			assert_int_equal(s->packet.length, 16);
		}
	}
	assert_int_equal(seen, 1);
}

/* An XRC target's responder may go elsewhere between two messages, whatever it has said about what came too early:
 * perhaps that was for where it is, and what is missing is for where it has to go. */
NO_LOCK_ANALYSIS static void a_gap_keeps_no_responder_from_moving(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(0), 4, 0, 4));
	expect_ack(f, due_psn(0), ACKED);
	fixture_give(f, aimed(f, OP_WRITE_ONLY, due_psn(2), 4, 0, 4));
	expect_ack(f, due_psn(1), NAK_SEQUENCE);
	assert_true(engine_rests(f->qp));

	fixture_give(f, aimed(f, OP_WRITE_FIRST, due_psn(1), MTU, 0, MTU + 4));
	assert_false(engine_rests(f->qp)); /* but inside one it may not */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(psns_are_taken_in_order),
		TEST(half_the_psns_are_past_and_half_are_future),
		TEST(operations_come_in_sequence),
		TEST(lengths_are_right),
		TEST(the_last_packet_has_bytes),
		TEST(a_write_is_as_long_as_announced),
		TEST(keys_bounds_and_rights_are_checked),
		TEST(a_key_of_no_bytes_is_not_looked_at),
		TEST(the_qp_has_to_allow_it),
		TEST(without_a_receive_the_sender_waits),
		TEST(a_message_too_long_for_its_receive_fails_both),
		TEST(a_receive_with_a_wrong_key_is_an_operation_error),
		TEST(acks_are_coalesced_unless_asked_for),
		TEST(the_msn_counts_messages),
		TEST(a_read_is_answered_packet_by_packet),
		TEST(a_duplicate_read_is_read_again),
		TEST(a_duplicate_read_that_is_none_changes_nothing),
		TEST(the_ack_of_a_duplicate_does_not_stand_for_a_response),
		TEST(atomics_are_executed_once),
		TEST(an_atomic_is_aligned),
		TEST(reads_and_atomics_are_as_many_as_agreed),
		TEST(without_resources_reads_are_refused),
		TEST(duplicates_do_not_take_the_places_of_new_requests),
		TEST(immediate_data_and_solicited_events_arrive),
		TEST(an_error_is_a_solicited_event),
		TEST(invalidation_kills_the_key),
		TEST(what_ibv_reg_mr_made_cannot_be_invalidated),
		TEST(strangers_are_ignored),
		TEST(requests_are_taken_from_rtr_on),
		TEST(congestion_is_reported_now_and_then),
		TEST(a_gap_keeps_no_responder_from_moving),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
