/* The requester and completer: what goes out, what each answer does, how every request ends
 * (IBTA 9.7.2, 9.7.5 to 9.7.8, 10.7, 11.6.2). SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "fixture.h"

#define SIGNALED .send_flags = IBV_SEND_SIGNALED
#define REMOTE	 .wr.rdma = {IOVA, 0x99}

static struct ibv_send_wr send_of(uint64_t id, uint32_t length)
{
	return (struct ibv_send_wr){.wr_id = id, .opcode = IBV_WR_SEND, .num_sge = (int)length, SIGNALED};
}

static struct ibv_send_wr write_of(uint64_t id, uint32_t length)
{
	return (struct ibv_send_wr){
		.wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .num_sge = (int)length, SIGNALED, REMOTE};
}

static struct ibv_send_wr read_of(uint64_t id, uint32_t length)
{
	return (struct ibv_send_wr){
		.wr_id = id, .opcode = IBV_WR_RDMA_READ, .num_sge = (int)length, SIGNALED, REMOTE};
}

static struct ibv_send_wr add_of(uint64_t id, uint64_t add)
{
	struct ibv_send_wr wr = {
		.wr_id = id, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .num_sge = sizeof(uint64_t), SIGNALED};

	wr.wr.atomic.remote_addr = IOVA;
	wr.wr.atomic.rkey = 0x99;
	wr.wr.atomic.compare_add = add;
	return wr;
}

/* rows of {request, its packets}, path MTU 256 */
static void requests_become_packets(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
		uint8_t packets[4];
		uint32_t count;
	} rows[] = {
		{IBV_WR_SEND, 0, {OP_SEND_ONLY}, 1},
		{IBV_WR_SEND, MTU, {OP_SEND_ONLY}, 1},
		{IBV_WR_SEND, MTU + 1, {OP_SEND_FIRST, OP_SEND_LAST}, 2},
		{IBV_WR_SEND, 3 * MTU, {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST}, 3},
		{IBV_WR_SEND_WITH_IMM, 0, {OP_SEND_ONLY_IMM}, 1},
		{IBV_WR_SEND_WITH_IMM, 2 * MTU, {OP_SEND_FIRST, OP_SEND_LAST_IMM}, 2},
		{IBV_WR_SEND_WITH_INV, 1, {OP_SEND_ONLY_INV}, 1},
		{IBV_WR_SEND_WITH_INV, 2 * MTU, {OP_SEND_FIRST, OP_SEND_LAST_INV}, 2},
		{IBV_WR_RDMA_WRITE, 0, {OP_WRITE_ONLY}, 1},
		{IBV_WR_RDMA_WRITE, 2 * MTU, {OP_WRITE_FIRST, OP_WRITE_LAST}, 2},
		{IBV_WR_RDMA_WRITE,
		 4 * MTU,
		 {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_MIDDLE, OP_WRITE_LAST},
		 4},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 3, {OP_WRITE_ONLY_IMM}, 1},
		{IBV_WR_RDMA_WRITE_WITH_IMM,
		 3 * MTU,
		 {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM},
		 3},
		{IBV_WR_RDMA_READ, 0, {OP_READ_REQUEST}, 1},
		{IBV_WR_RDMA_READ, 3 * MTU, {OP_READ_REQUEST}, 1},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 8, {OP_COMPARE_SWAP}, 1},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8, {OP_FETCH_ADD}, 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		void *fresh = NULL;
		struct fixture *f;
		uint32_t bytes = 0;

		assert_int_equal(fixture_setup(&fresh), 0);
		f = fresh;
		fixture_start(f, IBV_QPS_RTS);
		for (int b = 0; b < MEMORY; b++)
			f->memory[b] = (uint8_t)(b * 5 + (b >> 8));
		fixture_post(f, (struct ibv_send_wr){
					.opcode = rows[i].opcode,
					.num_sge = (int)rows[i].length,
					.send_flags = IBV_SEND_SOLICITED,
					.imm_data = 0x11223344,
					REMOTE,
				});
		for (uint32_t n = 0; n < rows[i].count; n++) {
			const struct sent *s = expect_sent_(f, rows[i].packets[n], sent_psn(n), (int)i);
			uint32_t flags = opcode_info[s->packet.opcode].flags;

			if (flags & HAS_PAYLOAD)
				assert_memory_equal(s->payload, f->memory + bytes, s->packet.length);
			bytes += s->packet.length;
			assert_int_equal(s->packet.ack_request, n + 1 == rows[i].count);
			/* IBTA 9.2.3: solicited is for what uses a receive, in its last packet */
			assert_int_equal(s->packet.solicited,
					 n + 1 == rows[i].count &&
						 (rows[i].opcode == IBV_WR_SEND ||
						  rows[i].opcode == IBV_WR_SEND_WITH_IMM ||
						  rows[i].opcode == IBV_WR_SEND_WITH_INV ||
						  rows[i].opcode == IBV_WR_RDMA_WRITE_WITH_IMM));
			if (flags & HAS_IMM)
				assert_int_equal(s->packet.imm, 0x11223344);
			if (flags & HAS_IETH)
				assert_int_equal(s->packet.inv_rkey, 0x11223344);
			if (flags & HAS_RETH)
				assert_int_equal(s->packet.dma_length, rows[i].length);
		}
		expect_silence_(f, (int)i);
		fixture_teardown(&fresh);
	}
}

static void the_next_request_is_behind_the_responses_of_a_read(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, read_of(1, 3 * MTU));
	fixture_post(f, send_of(2, 1));
	expect_sent(f, OP_READ_REQUEST, sent_psn(0));
	expect_sent(f, OP_SEND_ONLY, sent_psn(3));
}

static void gathered_data_cross_pieces_and_packets(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[4];
	uint8_t expected[400];

	fixture_start(f, IBV_QPS_RTS);
	for (int b = 0; b < MEMORY; b++)
		f->memory[b] = (uint8_t)(b ^ (b >> 8));
	sge[0] = fixture_sge(f, 1000, 100);
	sge[1] = fixture_sge(f, 5000, 0);
	sge[2] = fixture_sge(f, 3000, 299);
	sge[3] = fixture_sge(f, 7, 1);
	memcpy(expected, f->memory + 1000, 100);
	memcpy(expected + 100, f->memory + 3000, 299);
	expected[399] = f->memory[7];
	fixture_post(f, (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 4});
	assert_memory_equal(expect_sent(f, OP_SEND_FIRST, sent_psn(0))->payload, expected, MTU);
	assert_memory_equal(expect_sent(f, OP_SEND_LAST, sent_psn(1))->payload, expected + MTU, 400 - MTU);
}

static void inline_data_are_taken_when_posted(void **state)
{
	char text[] = "here and now";
	struct ibv_sge sge = {(uintptr_t)text, sizeof(text), 0};
	struct fixture *f = *state;
	struct ibv_send_wr *bad,
		wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_INLINE};

	fixture_start(f, IBV_QPS_RTS);
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, &wr, &bad), 0);
	lock_drop(&f->qp->lock);
	memset(text, 0, sizeof(text));
	fixture_run(f);
	assert_string_equal((const char *)expect_sent(f, OP_SEND_ONLY, sent_psn(0))->payload, "here and now");
}

/* rows of {what is posted, errno} */
static void bad_requests_are_refused(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[5] = {{0}};
	uint8_t data[65];
	struct ibv_sge in_line = {(uintptr_t)data, sizeof(data), 0};
	const struct {
		struct ibv_send_wr wr;
		int err;
	} rows[] = {
		{{.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 5}, EINVAL},
		{{.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = -1}, EINVAL},
		{{.opcode = 77}, EINVAL},
		{{.opcode = IBV_WR_TSO}, EINVAL},
		{{.opcode = IBV_WR_SEND, .sg_list = &in_line, .num_sge = 1, .send_flags = IBV_SEND_INLINE},
		 EINVAL},
		{{.opcode = IBV_WR_RDMA_READ,
		  .sg_list = &in_line,
		  .num_sge = 0,
		  .send_flags = IBV_SEND_INLINE},
		 EINVAL},
		{{.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 0}, 0},
	};

	fixture_start(f, IBV_QPS_RTS);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(fixture_post(f, rows[i].wr), rows[i].err);
}

static void a_list_is_taken_up_to_the_first_bad_request(void **state)
{
	struct ibv_send_wr wr[3] = {{.opcode = IBV_WR_SEND, .next = &wr[1]}, {.opcode = 99, .next = &wr[2]}},
			   *bad;
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, wr, &bad), EINVAL);
	lock_drop(&f->qp->lock);
	assert_ptr_equal(bad, &wr[1]);
	fixture_run(f);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_silence(f);
}

static void a_slot_is_free_when_its_completion_is_polled(void **state)
{
	struct fixture *f = *state;

	f->cap.max_send_wr = 3;
	fixture_start(f, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 3; i++) {
		struct ibv_send_wr wr = send_of(i, 1);

		wr.send_flags = i == 1 ? IBV_SEND_SIGNALED : 0;
		assert_int_equal(fixture_post(f, wr), 0);
	}
	assert_int_equal(fixture_post(f, send_of(9, 1)), ENOMEM);
	fixture_give(f, ack(sent_psn(2), ACKED));
	assert_int_equal(fixture_post(f, send_of(9, 1)), ENOMEM);
	expect_done(f, 1, IBV_WC_SUCCESS); /* frees itself and the unsignalled one before */
	assert_int_equal(fixture_post(f, send_of(9, 1)), 0);
	assert_int_equal(fixture_post(f, send_of(10, 1)), 0);
	assert_int_equal(fixture_post(f, send_of(11, 1)), ENOMEM);
}

/* rows of {state, whether post_send and post_recv are taken} */
static void posting_depends_on_the_state(void **state)
{
	static const struct {
		enum ibv_qp_state state;
		int send, recv;
	} rows[] = {
		{IBV_QPS_RESET, EINVAL, EINVAL},
		{IBV_QPS_INIT, EINVAL, 0},
		{IBV_QPS_RTR, EINVAL, 0},
		{IBV_QPS_RTS, 0, 0},
		{IBV_QPS_SQD, 0, 0},
		{IBV_QPS_ERR, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		void *fresh = NULL;
		struct fixture *f;

		assert_int_equal(fixture_setup(&fresh), 0);
		f = fresh;
		fixture_start(f, rows[i].state);
		assert_int_equal(fixture_post(f, send_of(1, 1)), rows[i].send);
		assert_int_equal(fixture_post_recv(f, 2, 1), rows[i].recv);
		if (rows[i].state == IBV_QPS_ERR) {
			expect_done(f, 1, IBV_WC_WR_FLUSH_ERR);
			expect_taken(f, 2, IBV_WC_WR_FLUSH_ERR);
		}
		expect_none(f);
		assert_int_equal(!fixture_is_silent(f), rows[i].state == IBV_QPS_RTS);
		fixture_teardown(&fresh);
	}
}

static void an_ack_completes_all_before_it(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 2 * MTU));
	fixture_post(f, write_of(2, 1));
	fixture_post(f, send_of(3, 3 * MTU));
	fixture_give(f, ack(sent_psn(0), ACKED)); /* half of the first */
	expect_none(f);
	fixture_give(f, ack(sent_psn(3), ACKED));
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
	assert_int_equal(expect_done(f, 2, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
	expect_none(f);
	fixture_give(f, ack(sent_psn(5), ACKED));
	expect_done(f, 3, IBV_WC_SUCCESS);
	fixture_give(f, ack(sent_psn(5), ACKED)); /* again: nothing */
	expect_none(f);
	assert_false(fixture_wait_deadline(f)); /* nothing is due any more */
}

static void only_signalled_requests_complete(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr quiet = send_of(1, 1);

	quiet.send_flags = 0;
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, quiet);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_none(f);
}

static void sig_all_signals_all(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr quiet = send_of(1, 1);

	f->sig_all = true;
	quiet.send_flags = 0;
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, quiet);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

/* IBTA 9.7.5.1.2: for what was never sent, or was acknowledged before */
static void ghosts_are_ignored(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, ack(sent_psn(0), ACKED));
	fixture_give(f, ack(sent_psn(0), NAK_REMOTE_ACCESS));
	fixture_post(f, send_of(1, 1));
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(1), ACKED));
	fixture_give(f, ack(sent_psn(1), NAK_REMOTE_ACCESS));
	fixture_give(f, ack(sent_psn(-1u), NAK_INVALID_REQUEST));
	fixture_give(f, ack(sent_psn(-1u), NAK_SEQUENCE));
	fixture_give(f, ack(sent_psn(-1u), SYNDROME_RNR | 1));
	fixture_give(f, ack(sent_psn(0x7fffff), ACKED));
	fixture_give(f, ack(sent_psn(0x800000), ACKED));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(1), 4));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(-1u), 4));
	fixture_give(f, response(OP_ATOMIC_ACKNOWLEDGE, sent_psn(-1u), 0));
	fixture_give_from(f, ack(sent_psn(0), ACKED), &fixture_elsewhere);
	expect_none(f);
	expect_silence(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

/* rows of {syndrome, status}: what a NAK does to the request it names; those before it are done */
static void each_nak_has_its_status(void **state)
{
	static const struct {
		uint8_t syndrome;
		enum ibv_wc_status status;
	} rows[] = {
		{NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR},
		{NAK_REMOTE_ACCESS, IBV_WC_REM_ACCESS_ERR},
		{NAK_REMOTE_OPERATION, IBV_WC_REM_OP_ERR},
		{NAK_INVALID_RD_REQUEST, IBV_WC_REM_INV_RD_REQ_ERR},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		void *fresh = NULL;
		struct fixture *f;

		assert_int_equal(fixture_setup(&fresh), 0);
		f = fresh;
		fixture_start(f, IBV_QPS_RTS);
		fixture_post_recv(f, 11, 4);
		fixture_post(f, send_of(1, 1));
		fixture_post(f, write_of(2, 2 * MTU));
		fixture_post(f, send_of(3, 1));
		fixture_give(f, ack(sent_psn(2), rows[i].syndrome)); /* the second packet of request 2 */
		expect_done(f, 1, IBV_WC_SUCCESS);
		expect_done(f, 2, rows[i].status);
		expect_done(f, 3, IBV_WC_WR_FLUSH_ERR);
		expect_taken(f, 11, IBV_WC_WR_FLUSH_ERR);
		expect_none(f);
		assert_int_equal(f->qp->state, IBV_QPS_ERR);
		assert_false(fixture_wait_deadline(f));
		fixture_teardown(&fresh);
	}
}

static void unknown_naks_are_ignored(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	for (uint8_t code = 5; code < 32; code++)
		fixture_give(f, ack(sent_psn(0), SYNDROME_NAK | code));
	for (uint8_t code = 0; code < 32; code++)
		fixture_give(f, ack(sent_psn(0), 0x40 | code)); /* a reserved kind */
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	expect_none(f);
}

static void a_sequence_nak_goes_back(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 3 * MTU));
	fixture_post(f, send_of(2, 1));
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(1), NAK_SEQUENCE)); /* and acknowledges what is before it */
	expect_sent(f, OP_SEND_MIDDLE, sent_psn(1));
	expect_sent(f, OP_SEND_LAST, sent_psn(2));
	expect_sent(f, OP_SEND_ONLY, sent_psn(3));
	expect_silence(f);
	fixture_give(f, ack(sent_psn(3), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
}

/* Posted together: the last one asks, and its ACK completes all. */
static void one_ack_covers_what_was_posted_together(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr[4];

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(0, 1));
	assert_true(expect_sent(f, OP_SEND_ONLY, sent_psn(0))->packet.ack_request);
	for (uint32_t i = 0; i < 4; i++) {
		wr[i] = send_of(1 + i, 0);
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	fixture_post(f, wr[0]);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(expect_sent(f, OP_SEND_ONLY, sent_psn(1 + i))->packet.ack_request, i == 3);
	fixture_give(f, ack(sent_psn(4), ACKED));
	for (uint32_t i = 0; i < 5; i++)
		expect_done(f, i, IBV_WC_SUCCESS);
}

/* An ACK for each message of a ping-pong would be a second packet beside the reply. rows of {whether the peer has sent
 * something since, flags of the request, us since the last one, whether it asks} */
static void a_reply_that_nobody_waits_for_asks_now_and_then(void **state)
{
	static const struct {
		bool spoke;
		unsigned flags;
		uint32_t pause;
		bool asks;
	} rows[] = {
		{false, 0, 0, true},  {true, 0, 0, false},   {true, IBV_SEND_SIGNALED, 0, true},
		{true, 0, 0, false},  {false, 0, 0, true},   {true, 0, 0, false},
		{true, 0, 200, true}, {true, 0, 0, false},
	};
	struct fixture *f = *state;
	uint32_t due = 0;

	f->attr.timeout = 18; /* 1 s */
	fixture_start(f, IBV_QPS_RTS);
	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_send_wr wr = send_of(i, 1);

		if (rows[i].spoke) {
			fixture_post_recv(f, i, 1);
			fixture_give(f, request(OP_SEND_ONLY, due_psn(due++), 1));
			fixture_forget(f);
		}
		f->now += rows[i].pause * USEC;
		wr.send_flags = rows[i].flags;
		fixture_post(f, wr);
		assert_int_equal(expect_sent(f, OP_SEND_ONLY, sent_psn(i))->packet.ack_request, rows[i].asks);
		assert_int_equal(engine_awaits_answer(f->qp), true);
	}
	/* what no later one asks for is found out about */
	fixture_give(f, ack(sent_psn(6), ACKED));
	assert_false(engine_awaits_answer(f->qp));
	assert_true(engine_in_flight(f->qp));
	fixture_wait(f, 20 * MSEC);
	assert_true(expect_sent(f, OP_SEND_ONLY, sent_psn(7))->packet.ack_request);
	fixture_give(f, ack(sent_psn(7), ACKED));
	assert_false(engine_in_flight(f->qp));
}

/* The window's edge does not cut a train in two: 15 packets of 4096 bytes. */
static void a_train_is_begun_when_all_of_it_has_room(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge;
	struct ibv_send_wr wr[4];

	f->attr.path_mtu = IBV_MTU_4096;
	fixture_start(f, IBV_QPS_RTS);
	f->qp->req.window = 40 * (4096 + 128);
	sge = fixture_sge(f, 0, 65536);
	for (uint32_t i = 0; i < 4; i++) {
		wr[i] = send_of(i, 0);
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	fixture_post(f, wr[0]);
	assert_int_equal(f->sents, 30);
	f->qp->req.recovering = true; /* the window stays as it is */
	fixture_give(f, ack(sent_psn(3), ACKED));
	assert_int_equal(f->sents, 30);
	fixture_give(f, ack(sent_psn(4), ACKED));
	assert_int_equal(f->sents, 45);
	f->qp->req.recovering = true;
	fixture_give(f, ack(sent_psn(44), ACKED));
	assert_int_equal(f->sents, 64);
}

/* The packets of a WRITE are WRITEs of their own where the peer is known to allow it: see goes_in_pieces(). */
static void a_write_goes_in_pieces_where_one_has_been(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr = write_of(3, 4 * MTU);

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, write_of(1, 4 * MTU));
	fixture_post(f, write_of(2, 3 * MTU)); /* nothing is known yet */
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(6), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);

	fixture_post(f, wr);
	for (uint32_t n = 0; n < 4; n++) {
		const struct sent *s = expect_sent(f, OP_WRITE_ONLY, sent_psn(7 + n));

		assert_int_equal(s->packet.va, IOVA + n * MTU);
		assert_int_equal(s->packet.dma_length, MTU);
		assert_int_equal(s->packet.ack_request, n == 3);
	}
	fixture_give(f, ack(sent_psn(9), NAK_SEQUENCE));
	expect_sent(f, OP_WRITE_ONLY, sent_psn(9));
	expect_sent(f, OP_WRITE_ONLY, sent_psn(10));
	fixture_give(f, ack(sent_psn(10), ACKED));
	expect_done(f, 3, IBV_WC_SUCCESS);

	wr.wr.rdma.remote_addr++; /* a byte more than is known */
	fixture_post(f, wr);
	expect_sent(f, OP_WRITE_FIRST, sent_psn(11));
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(14), ACKED));
	fixture_post(f, wr); /* and now that is known too */
	expect_sent(f, OP_WRITE_ONLY, sent_psn(15));
	fixture_forget(f);
	wr.wr.rdma.rkey++;
	fixture_post(f, wr);
	expect_sent(f, OP_WRITE_FIRST, sent_psn(19));
	fixture_forget(f);
}

static void retries_of_sequence_naks_are_limited(void **state)
{
	struct fixture *f = *state;

	f->attr.timeout = 20; /* 4 s: out of the way */
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	for (int i = 0; i < 50 && f->qp->state == IBV_QPS_RTS; i++) {
		fixture_give(f, ack(sent_psn(0), NAK_SEQUENCE));
		f->now += 30 * MSEC;
	}
	/* copies of one NAK may count once, but it does not go on for ever: the timer is there */
	while (f->qp->state == IBV_QPS_RTS && fixture_wait_deadline(f))
		;
	expect_done(f, 1, IBV_WC_RETRY_EXC_ERR);
}

static void a_read_is_put_where_it_belongs(void **state)
{
	struct ibv_sge sge[3];
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	sge[0] = fixture_sge(f, 1000, 100);
	sge[1] = fixture_sge(f, 3000, MTU);
	sge[2] = fixture_sge(f, 10, 45);
	fixture_post(f, (struct ibv_send_wr){.wr_id = 1,
					     .opcode = IBV_WR_RDMA_READ,
					     .sg_list = sge,
					     .num_sge = 3,
					     SIGNALED,
					     REMOTE});
	fixture_give(f, response(OP_READ_RESPONSE_FIRST, sent_psn(0), MTU));
	expect_none(f);
	fixture_give(f, response(OP_READ_RESPONSE_LAST, sent_psn(1), 145));
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).byte_len, 100 + MTU + 45);
	assert_memory_equal(f->memory + 1000, f->payload, 100);
	assert_memory_equal(f->memory + 3000, f->payload + 100, MTU - 100);
	assert_memory_equal(f->memory + 3000 + MTU - 100, f->payload, 100);
	assert_memory_equal(f->memory + 10, f->payload + 100, 45);
	assert_int_equal(f->memory[1100] | f->memory[3000 + MTU] | f->memory[55] | f->memory[9], 0);
}

/* rows of {response to a READ of 2 * MTU, offset of its PSN, length, whether it is right} */
static void responses_are_as_long_as_asked(void **state)
{
	static const struct {
		uint8_t operation;
		uint32_t length;
		bool right;
	} rows[] = {
		{OP_READ_RESPONSE_FIRST, MTU, true},	  {OP_READ_RESPONSE_FIRST, MTU - 1, false},
		{OP_READ_RESPONSE_FIRST, MTU + 1, false}, {OP_READ_RESPONSE_FIRST, 0, false},
		{OP_READ_RESPONSE_ONLY, 4, false},	  {OP_READ_RESPONSE_ONLY, 2 * MTU, false},
		{OP_READ_RESPONSE_LAST, 4, false},	  {OP_ATOMIC_ACKNOWLEDGE, 0, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		void *fresh = NULL;
		struct fixture *f;

		assert_int_equal(fixture_setup(&fresh), 0);
		f = fresh;
		fixture_start(f, IBV_QPS_RTS);
		fixture_post(f, read_of(1, 2 * MTU));
		fixture_give(f, response(rows[i].operation, sent_psn(0), rows[i].length));
		if (rows[i].right) {
			expect_none(f);
		} else {
			expect_done(f, 1, IBV_WC_BAD_RESP_ERR);
			assert_int_equal(f->qp->state, IBV_QPS_ERR);
		}
		fixture_teardown(&fresh);
	}
}

static void an_atomic_brings_what_was_there(void **state)
{
	struct fixture *f = *state;
	struct packet p;
	uint64_t was;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, add_of(1, 3));
	assert_int_equal(expect_sent(f, OP_FETCH_ADD, sent_psn(0))->packet.swap_add, 3);
	p = response(OP_ATOMIC_ACKNOWLEDGE, sent_psn(0), 0);
	p.original = 0x1122334455667788;
	fixture_give(f, p);
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	memcpy(&was, f->memory, sizeof(was));
	assert_int_equal(was, 0x1122334455667788);
}

static void a_response_to_a_send_is_bad(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(0), 1));
	expect_done(f, 1, IBV_WC_BAD_RESP_ERR);
}

static void a_read_answered_like_an_atomic_is_bad(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, add_of(1, 3));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(0), 8));
	expect_done(f, 1, IBV_WC_BAD_RESP_ERR);
}

/* IBTA 9.7.5.1.4: an ACK beyond a READ says that its response was lost */
static void an_ack_beyond_a_read_implies_a_nak(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	fixture_post(f, read_of(2, 2 * MTU));
	fixture_post(f, send_of(3, 1));
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(3), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_none(f);
	expect_sent(f, OP_READ_REQUEST, sent_psn(1));
	expect_sent(f, OP_SEND_ONLY, sent_psn(3));
	/* once for each hole */
	fixture_give(f, ack(sent_psn(3), ACKED));
	expect_silence(f);
	fixture_give(f, response(OP_READ_RESPONSE_FIRST, sent_psn(1), MTU));
	fixture_give(f, response(OP_READ_RESPONSE_LAST, sent_psn(2), MTU));
	expect_done(f, 2, IBV_WC_SUCCESS);
	fixture_give(f, ack(sent_psn(3), ACKED));
	expect_done(f, 3, IBV_WC_SUCCESS);
}

static void a_response_beyond_a_hole_asks_again_from_there(void **state)
{
	struct fixture *f = *state;
	const struct sent *s;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, read_of(1, 4 * MTU));
	fixture_forget(f);
	fixture_give(f, response(OP_READ_RESPONSE_FIRST, sent_psn(0), MTU));
	fixture_give(f, response(OP_READ_RESPONSE_MIDDLE, sent_psn(2), MTU));
	s = expect_sent(f, OP_READ_REQUEST, sent_psn(1));
	assert_int_equal(s->packet.va, IOVA + MTU);
	assert_int_equal(s->packet.dma_length, 3 * MTU);
	fixture_give(f, response(OP_READ_RESPONSE_LAST, sent_psn(3), MTU)); /* of the first answer, still */
	expect_silence(f);
	fixture_give(f, response(OP_READ_RESPONSE_FIRST, sent_psn(1), MTU));
	fixture_give(f, response(OP_READ_RESPONSE_MIDDLE, sent_psn(2), MTU));
	fixture_give(f, response(OP_READ_RESPONSE_LAST, sent_psn(3), MTU));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void a_response_acknowledges_what_is_before_it(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	fixture_post(f, write_of(2, 2 * MTU));
	fixture_post(f, read_of(3, 1));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(3), 1));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_done(f, 3, IBV_WC_SUCCESS);
}

static void reads_and_atomics_wait_for_their_turn(void **state)
{
	struct fixture *f = *state;

	f->attr.max_rd_atomic = 2;
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, read_of(1, 1));
	fixture_post(f, add_of(2, 1));
	fixture_post(f, read_of(3, 1));
	fixture_post(f, send_of(4, 1)); /* keeps its place behind them */
	expect_sent(f, OP_READ_REQUEST, sent_psn(0));
	expect_sent(f, OP_FETCH_ADD, sent_psn(1));
	expect_silence(f);
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(0), 1));
	expect_sent(f, OP_READ_REQUEST, sent_psn(2));
	expect_sent(f, OP_SEND_ONLY, sent_psn(3));
}

static void a_fence_waits_for_reads_and_atomics(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr fenced = send_of(3, 1);

	fenced.send_flags |= IBV_SEND_FENCE;
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	fixture_post(f, fenced); /* a SEND before it does not matter */
	fixture_post(f, read_of(2, 1));
	fixture_post(f, fenced);
	fixture_post(f, send_of(4, 1));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_sent(f, OP_SEND_ONLY, sent_psn(1));
	expect_sent(f, OP_READ_REQUEST, sent_psn(2));
	expect_silence(f);
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(2), 1));
	expect_sent(f, OP_SEND_ONLY, sent_psn(3));
	expect_sent(f, OP_SEND_ONLY, sent_psn(4));
}

/* rows of {what is posted, status}: errors of this side */
static void local_errors_have_their_status(void **state)
{
	enum { WRONG_KEY, OUT_OF_BOUNDS, OTHER_DOMAIN, READ_ONLY, NO_READS, ATOMIC_SIZE, TOO_LONG };
	static const struct {
		int what;
		enum ibv_wc_status status;
	} rows[] = {
		{WRONG_KEY, IBV_WC_LOC_PROT_ERR},    {OUT_OF_BOUNDS, IBV_WC_LOC_PROT_ERR},
		{OTHER_DOMAIN, IBV_WC_LOC_PROT_ERR}, {READ_ONLY, IBV_WC_LOC_PROT_ERR},
		{NO_READS, IBV_WC_LOC_QP_OP_ERR},    {ATOMIC_SIZE, IBV_WC_LOC_LEN_ERR},
		{TOO_LONG, IBV_WC_LOC_LEN_ERR},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_SEND, .num_sge = 1, SIGNALED, REMOTE};
		struct ibv_sge sge[2] = {{0}};
		void *fresh = NULL;
		struct fixture *f;

		assert_int_equal(fixture_setup(&fresh), 0);
		f = fresh;
		f->attr.max_rd_atomic = rows[i].what == NO_READS ? 0 : 4;
		fixture_start(f, IBV_QPS_RTS);
		wr.sg_list = sge;
		sge[0] = sge[1] = fixture_sge(f, 0, 8);
		switch (rows[i].what) {
		case WRONG_KEY:
			sge[0].lkey ^= 1;
			break;
		case OUT_OF_BOUNDS:
			sge[0].addr = IOVA + MEMORY - 7;
			break;
		case OTHER_DOMAIN:
			sge[0].lkey = f->foreign->base.lkey;
			break;
		case READ_ONLY:
			wr.opcode = IBV_WR_RDMA_READ;
			sge[0].lkey = f->plain->base.lkey;
			break;
		case NO_READS:
			wr.opcode = IBV_WR_RDMA_READ;
			break;
		case ATOMIC_SIZE:
			wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
			sge[0].length = 4;
			break;
		case TOO_LONG:
			wr.num_sge = 2;
			sge[0].length = 1u << 31;
			break;
		}
		/* it waits for the request before it */
		fixture_post(f, send_of(1, 1));
		fixture_post(f, wr);
		fixture_post(f, send_of(3, 1));
		expect_sent(f, OP_SEND_ONLY, sent_psn(0));
		expect_silence_(f, (int)i);
		expect_none(f);
		fixture_give(f, ack(sent_psn(0), ACKED));
		expect_done(f, 1, IBV_WC_SUCCESS);
		expect_completion_(&f->send_cq, 2, rows[i].status, (int)i);
		expect_done(f, 3, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(f->qp->state, IBV_QPS_ERR);
		fixture_teardown(&fresh);
	}
}

static void a_region_that_goes_while_its_request_waits_is_noticed(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge;

	fixture_start(f, IBV_QPS_RTS);
	sge = (struct ibv_sge){IOVA, 8, f->plain->base.lkey};
	fixture_post(f, (struct ibv_send_wr){
				.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, SIGNALED});
	fixture_post(f, send_of(2, 1));
	mr_deregister(f->plain);
	fixture_give(f, ack(sent_psn(0), NAK_SEQUENCE));
	expect_done(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_done(f, 2, IBV_WC_WR_FLUSH_ERR);
}

static void a_probe_notices_that_a_region_is_gone(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge;

	fixture_start(f, IBV_QPS_RTS);
	sge = (struct ibv_sge){IOVA, 8, f->plain->base.lkey};
	fixture_post(f, (struct ibv_send_wr){
				.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, SIGNALED});
	mr_deregister(f->plain);
	fixture_post(f, (struct ibv_send_wr){
				.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, SIGNALED});
	while (f->qp->state == IBV_QPS_RTS && fixture_wait_deadline(f))
		;
	expect_done(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_done(f, 2, IBV_WC_WR_FLUSH_ERR);
}

/* IBTA 9.7.6.1.3: between T and 4 T; the first transmission and retry_cnt retries */
static void a_silent_peer_costs_all_retries(void **state)
{
	static const struct {
		uint8_t timeout, retries;
	} rows[] = {{12, 0}, {12, 1}, {14, 2}, {14, 7}, {18, 7}, {20, 3}, {31, 1}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t t = 4096ull << rows[i].timeout, begin;
		void *fresh = NULL;
		struct fixture *f;

		assert_int_equal(fixture_setup(&fresh), 0);
		f = fresh;
		f->attr.timeout = rows[i].timeout;
		f->attr.retry_cnt = rows[i].retries;
		fixture_start(f, IBV_QPS_RTS);
		begin = f->now;
		fixture_post(f, send_of(1, 1));
		fixture_post(f, send_of(2, 1));
		while (f->qp->state == IBV_QPS_RTS)
			assert_true(fixture_wait_deadline(f));
		assert_true(f->now - begin >= (rows[i].retries + 1) * t);
		assert_true(f->now - begin <= (rows[i].retries + 1) * 4 * t);
		expect_done(f, 1, IBV_WC_RETRY_EXC_ERR);
		expect_done(f, 2, IBV_WC_WR_FLUSH_ERR);
		assert_true(f->sents >= 2 * (rows[i].retries + 1u));
		assert_false(fixture_wait_deadline(f));
		fixture_teardown(&fresh);
	}
}

static void timeout_0_is_for_ever(void **state)
{
	struct fixture *f = *state;

	f->attr.timeout = 0;
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	for (int i = 0; i < 100 && fixture_wait_deadline(f); i++)
		;
	fixture_wait(f, 3600 * SEC);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	expect_none(f);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void progress_renews_the_retries(void **state)
{
	struct fixture *f = *state;
	uint64_t t = 4096ull << 14;

	fixture_start(f, IBV_QPS_RTS); /* 2 retries */
	fixture_post(f, send_of(1, 20 * MTU));
	for (uint32_t i = 0; i < 19; i++) {
		fixture_wait(f, 8 * t); /* two retries are gone, each after at most 4 t */
		assert_int_equal(f->qp->state, IBV_QPS_RTS);
		fixture_forget(f);
		fixture_give(f, ack(sent_psn(i), ACKED));
	}
	fixture_give(f, ack(sent_psn(19), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void posting_more_does_not_renew_the_timer(void **state)
{
	struct fixture *f = *state;
	uint64_t t = 4096ull << 14;

	fixture_start(f, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 60 && f->qp->state == IBV_QPS_RTS; i++) {
		fixture_post(f, send_of(i, 1));
		fixture_wait(f, t / 3);
	}
	expect_done(f, 0, IBV_WC_RETRY_EXC_ERR);
}

static void a_lost_last_packet_is_probed_for(void **state)
{
	struct fixture *f = *state;

	f->attr.timeout = 18; /* 1 s */
	fixture_start(f, IBV_QPS_RTS);
	for (uint32_t i = 0; i < 8; i++) { /* the round trip is known */
		fixture_post(f, send_of(i, 1));
		f->now += 50 * USEC;
		fixture_give(f, ack(sent_psn(i), ACKED));
		expect_done(f, i, IBV_WC_SUCCESS);
	}
	fixture_post(f, send_of(8, 3 * MTU));
	fixture_forget(f);
	fixture_wait(f, 20 * MSEC);
	assert_false(fixture_is_silent(f));
	assert_int_equal(expect_sent(f, OP_SEND_LAST, sent_psn(10))->packet.ack_request, true);
	/* and it cost no retry */
	fixture_give(f, ack(sent_psn(10), ACKED));
	expect_done(f, 8, IBV_WC_SUCCESS);
}

/* IBTA 9.7.5.2.8, table 45, in ns */
static const uint64_t rnr_times[32] = {
	655360000, 10000,    20000,    30000,	  40000,     60000,	80000,	   120000,
	160000,	   240000,   320000,   480000,	  640000,    960000,	1280000,   1920000,
	2560000,   3840000,  5120000,  7680000,	  10240000,  15360000,	20480000,  30720000,
	40960000,  61440000, 81920000, 122880000, 163840000, 245760000, 327680000, 491520000,
};

static void a_receiver_that_is_not_ready_is_waited_for(void **state)
{
	for (uint8_t code = 0; code < 32; code++) {
		void *fresh = NULL;
		struct fixture *f;
		uint64_t begin;

		assert_int_equal(fixture_setup(&fresh), 0);
		f = fresh;
		fixture_start(f, IBV_QPS_RTS);
		fixture_post(f, send_of(1, 1));
		fixture_forget(f);
		fixture_give(f, ack(sent_psn(0), SYNDROME_RNR | code));
		begin = f->now;
		fixture_post(f, send_of(2, 1)); /* waits as well */
		expect_silence(f);
		assert_true(fixture_wait_deadline(f));
		assert_true(f->now - begin >= rnr_times[code]);
		assert_true(f->now - begin <= rnr_times[code] + rnr_times[code] / 10 + MSEC);
		expect_sent(f, OP_SEND_ONLY, sent_psn(0));
		expect_sent(f, OP_SEND_ONLY, sent_psn(1));
		fixture_teardown(&fresh);
	}
}

/* rows of {rnr_retry, RNR NAKs that are survived}; 7 is for ever */
static void rnr_retries_are_counted(void **state)
{
	static const struct {
		uint8_t rnr_retry;
		uint32_t survived;
	} rows[] = {{0, 0}, {1, 1}, {3, 3}, {6, 6}, {7, 1000}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		void *fresh = NULL;
		struct fixture *f;

		assert_int_equal(fixture_setup(&fresh), 0);
		f = fresh;
		f->attr.rnr_retry = rows[i].rnr_retry;
		f->attr.retry_cnt = 0; /* the other counter is not touched */
		fixture_start(f, IBV_QPS_RTS);
		fixture_post(f, send_of(1, 1));
		for (uint32_t n = 0; n < rows[i].survived; n++) {
			fixture_give(f, ack(sent_psn(0), SYNDROME_RNR | 1));
			assert_int_equal(f->qp->state, IBV_QPS_RTS);
			fixture_wait(f, 20 * USEC);
			fixture_forget(f);
		}
		if (rows[i].rnr_retry != 7) {
			fixture_give(f, ack(sent_psn(0), SYNDROME_RNR | 1));
			expect_done(f, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		} else {
			expect_none(f);
		}
		fixture_teardown(&fresh);
	}
}

static void an_ack_ends_the_wait_for_the_receiver(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	fixture_give(f, ack(sent_psn(0), SYNDROME_RNR)); /* 655 ms */
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(0), ACKED)); /* an earlier copy was taken after all */
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_false(fixture_wait_deadline(f));
	fixture_post(f, send_of(2, 1));
	expect_sent(f, OP_SEND_ONLY, sent_psn(1));
}

static void failure_flushes_both_queues_in_order(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	for (uint64_t i = 1; i <= 3; i++)
		fixture_post_recv(f, 10 + i, 64);
	fixture_give(f,
		     request(OP_SEND_FIRST, due_psn(0), MTU > 64 ? 0 : MTU)); /* fails: not a full packet */
	expect_taken(f, 11, IBV_WC_REM_INV_REQ_ERR);
	expect_taken(f, 12, IBV_WC_WR_FLUSH_ERR);
	expect_taken(f, 13, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 1; i <= 3; i++) {
		struct ibv_send_wr wr = send_of(i, 1);

		wr.send_flags = 0; /* a flushed request completes, signalled or not */
		fixture_post(f, wr);
		expect_done(f, i, IBV_WC_WR_FLUSH_ERR);
	}
	expect_none(f);
}

static void a_begun_receive_is_flushed_first(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 4096);
	fixture_post_recv(f, 2, 4096);
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU));
	fixture_post(f, send_of(7, 3 * MTU));
	assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	expect_taken(f, 1, IBV_WC_WR_FLUSH_ERR);
	expect_taken(f, 2, IBV_WC_WR_FLUSH_ERR);
	expect_done(f, 7, IBV_WC_WR_FLUSH_ERR);
	expect_none(f);
	/* and the rest of the message changes nothing */
	memset(f->memory, 0, sizeof(f->memory));
	fixture_forget(f);
	fixture_give(f, request(OP_SEND_LAST, due_psn(1), 4));
	expect_silence(f);
	for (int i = 0; i < MEMORY; i++)
		assert_int_equal(f->memory[i], 0);
}

static void a_full_cq_takes_the_qp_down(void **state)
{
	struct fixture *f = *state;

	cq_fini(&f->send_cq);
	f->send_cq = (struct cq){0};
	assert_int_equal(cq_init(&f->send_cq, &f->hca, 2), 0);
	fixture_start(f, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 3; i++)
		fixture_post(f, send_of(i, 1));
	fixture_give(f, ack(sent_psn(2), ACKED));
	assert_int_equal(f->cq_errors, 1);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(f->event[IBV_EVENT_QP_FATAL], 1);
}

static void draining_waits_for_what_is_on_the_way(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 2 * MTU));
	fixture_post(f, read_of(2, 1));
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(f->qp->attr.sq_draining, 1);
	fixture_forget(f);
	fixture_post(f, send_of(3, 1));
	expect_silence(f); /* nothing new is begun */
	fixture_give(f, ack(sent_psn(0), NAK_SEQUENCE));
	assert_int_equal(f->sents, 3); /* but what was begun is finished, retries included */
	fixture_give(f, ack(sent_psn(1), ACKED));
	assert_int_equal(f->event[IBV_EVENT_SQ_DRAINED], 0);
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(2), 1));
	assert_int_equal(f->event[IBV_EVENT_SQ_DRAINED], 1);
	assert_int_equal(f->qp->attr.sq_draining, 0);
	fixture_wait(f, SEC);
	assert_int_equal(f->event[IBV_EVENT_SQ_DRAINED], 1);
	fixture_forget(f);
	assert_int_equal(fixture_move(f, IBV_QPS_RTS), 0);
	fixture_run(f);
	expect_sent(f, OP_SEND_ONLY, sent_psn(3));
}

static void an_idle_queue_is_drained_at_once_and_only_if_asked(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_move(f, IBV_QPS_SQD), 0); /* nobody wants to know */
	assert_int_equal(f->event[IBV_EVENT_SQ_DRAINED], 0);
	assert_int_equal(fixture_move(f, IBV_QPS_RTS), 0);
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(f->event[IBV_EVENT_SQ_DRAINED], 1);
}

static void congestion_shrinks_the_window_and_progress_opens_it(void **state)
{
	struct fixture *f = *state;
	uint32_t window, shrunk;
	struct packet cnp = {.opcode = OPCODE_CNP, .pkey = PKEY_DEFAULT, .becn = true, .length = 16};

	fixture_start(f, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 40; i++)
		fixture_post(f, send_of(i, 4 * MTU));
	window = f->qp->req.window;
	fixture_give(f, cnp);
	fixture_give(f, cnp); /* once per round trip */
	shrunk = f->qp->req.window;
	assert_true(shrunk < window && shrunk >= 4 * MTU);
	fixture_give(f, ack(sent_psn(159), ACKED));
	for (uint64_t i = 0; i < 40; i++)
		expect_done(f, i, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 100; i++) {
		fixture_post(f, send_of(i, 1));
		fixture_give(f, ack(sent_psn(160 + i), ACKED));
		expect_done(f, i, IBV_WC_SUCCESS);
		fixture_forget(f);
	}
	assert_true(f->qp->req.window > shrunk);
}

static void a_long_read_is_one_request_to_the_application(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[4];
	uint32_t packets = 4 * MEMORY / 4096, n = 0;

	f->attr.path_mtu = IBV_MTU_4096;
	fixture_start(f, IBV_QPS_RTS);
	for (int i = 0; i < 4; i++)
		sge[i] = fixture_sge(f, 0, MEMORY);
	fixture_post(f, (struct ibv_send_wr){.wr_id = 1,
					     .opcode = IBV_WR_RDMA_READ,
					     .sg_list = sge,
					     .num_sge = 4,
					     SIGNALED,
					     REMOTE});
	/* whatever requests it takes, they cover it without gap or overlap, and each is answered as a READ of
	 * its own */
	while (n < packets) {
		const struct sent *s = expect_sent(f, OP_READ_REQUEST, sent_psn(n));
		uint32_t here = s->packet.dma_length / 4096;

		assert_int_equal(s->packet.va, IOVA + (uint64_t)n * 4096);
		for (uint32_t i = 0; i < here; i++) {
			uint8_t operation = here == 1	    ? OP_READ_RESPONSE_ONLY
					    : i == 0	    ? OP_READ_RESPONSE_FIRST
					    : i + 1 == here ? OP_READ_RESPONSE_LAST
							    : OP_READ_RESPONSE_MIDDLE;

			expect_none(f);
			fixture_give(f, response(operation, sent_psn(n++), 4096));
		}
	}
	assert_int_equal(n, packets);
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).byte_len, 4 * MEMORY);
}

static void destroying_takes_the_completions_along(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 1);
	fixture_post(f, send_of(1, 1));
	fixture_give(f, ack(sent_psn(0), ACKED));
	fixture_move(f, IBV_QPS_ERR);
	qp_destroy(f->qp);
	f->qp = NULL;
	expect_none(f);
	assert_null(hca_find_qp(&f->hca, 0x010000));
}

static void a_reset_qp_starts_afresh(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 1);
	fixture_post(f, send_of(1, 1));
	assert_int_equal(fixture_move(f, IBV_QPS_RESET), 0);
	expect_none(f);
	assert_false(fixture_wait_deadline(f));
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_none(f);
	fixture_forget(f);
	assert_int_equal(fixture_move(f, IBV_QPS_INIT), 0);
	assert_int_equal(fixture_move(f, IBV_QPS_RTR), 0);
	assert_int_equal(fixture_move(f, IBV_QPS_RTS), 0);
	fixture_post(f, send_of(2, 1));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_silence(f);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 1)); /* the old receive is gone */
	expect_ack(f, due_psn(0), SYNDROME_RNR | 12);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 2, IBV_WC_SUCCESS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests_become_packets),
		TEST(the_next_request_is_behind_the_responses_of_a_read),
		TEST(gathered_data_cross_pieces_and_packets),
		TEST(inline_data_are_taken_when_posted),
		TEST(bad_requests_are_refused),
		TEST(a_list_is_taken_up_to_the_first_bad_request),
		TEST(a_slot_is_free_when_its_completion_is_polled),
		TEST(posting_depends_on_the_state),
		TEST(an_ack_completes_all_before_it),
		TEST(only_signalled_requests_complete),
		TEST(sig_all_signals_all),
		TEST(ghosts_are_ignored),
		TEST(each_nak_has_its_status),
		TEST(unknown_naks_are_ignored),
		TEST(a_sequence_nak_goes_back),
		TEST(retries_of_sequence_naks_are_limited),
		TEST(a_read_is_put_where_it_belongs),
		TEST(responses_are_as_long_as_asked),
		TEST(an_atomic_brings_what_was_there),
		TEST(a_response_to_a_send_is_bad),
		TEST(a_read_answered_like_an_atomic_is_bad),
		TEST(an_ack_beyond_a_read_implies_a_nak),
		TEST(a_response_beyond_a_hole_asks_again_from_there),
		TEST(a_write_goes_in_pieces_where_one_has_been),
		TEST(a_response_acknowledges_what_is_before_it),
		TEST(reads_and_atomics_wait_for_their_turn),
		TEST(a_fence_waits_for_reads_and_atomics),
		TEST(local_errors_have_their_status),
		TEST(a_region_that_goes_while_its_request_waits_is_noticed),
		TEST(a_probe_notices_that_a_region_is_gone),
		TEST(a_silent_peer_costs_all_retries),
		TEST(timeout_0_is_for_ever),
		TEST(progress_renews_the_retries),
		TEST(posting_more_does_not_renew_the_timer),
		TEST(a_lost_last_packet_is_probed_for),
		TEST(a_receiver_that_is_not_ready_is_waited_for),
		TEST(rnr_retries_are_counted),
		TEST(an_ack_ends_the_wait_for_the_receiver),
		TEST(failure_flushes_both_queues_in_order),
		TEST(a_begun_receive_is_flushed_first),
		TEST(a_full_cq_takes_the_qp_down),
		TEST(draining_waits_for_what_is_on_the_way),
		TEST(an_idle_queue_is_drained_at_once_and_only_if_asked),
		TEST(congestion_shrinks_the_window_and_progress_opens_it),
		TEST(one_ack_covers_what_was_posted_together),
		TEST(a_reply_that_nobody_waits_for_asks_now_and_then),
		TEST(a_train_is_begun_when_all_of_it_has_room),
		TEST(a_long_read_is_one_request_to_the_application),
		TEST(destroying_takes_the_completions_along),
		TEST(a_reset_qp_starts_afresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
