/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester: which packets each posted request becomes (IBTA 9.7.2, 9.7.3, 10.7). */
#include <errno.h>
#include <string.h>

#include "requests.h"

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
		{IBV_WR_RDMA_WRITE, 4 * MTU, {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_MIDDLE, OP_WRITE_LAST}, 4},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 3, {OP_WRITE_ONLY_IMM}, 1},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 3 * MTU, {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM}, 3},
		{IBV_WR_RDMA_READ, 0, {OP_READ_REQUEST}, 1},
		{IBV_WR_RDMA_READ, 3 * MTU, {OP_READ_REQUEST}, 1},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 8, {OP_COMPARE_SWAP}, 1},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8, {OP_FETCH_ADD}, 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);
		uint32_t bytes = 0;

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
					 n + 1 == rows[i].count && (rows[i].opcode == IBV_WR_SEND ||
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

/* Its memory was unmapped after the packet had been made. */
NO_LOCK_ANALYSIS static void nothing_follows_what_could_not_be_read(void **state)
{
	struct fixture *f = *state;
	const struct tx tx = {.packet = {.opcode = OP_SEND_ONLY}, .position = 1};

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(0, 1));
	fixture_post(f, send_of(1, 1));
	fixture_forget(f);
	lock_take(&f->qp->lock);
	engine_unreadable(f->qp, &tx);
	lock_drop(&f->qp->lock);
	fixture_post(f, send_of(2, 1));
	expect_silence(f);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 0, IBV_WC_SUCCESS);
	expect_done(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_done(f, 2, IBV_WC_WR_FLUSH_ERR);
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
		{{.opcode = IBV_WR_SEND, .sg_list = &in_line, .num_sge = 1, .send_flags = IBV_SEND_INLINE}, EINVAL},
		{{.opcode = IBV_WR_RDMA_READ, .sg_list = &in_line, .num_sge = 0, .send_flags = IBV_SEND_INLINE},
		 EINVAL},
		{{.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 0}, 0},
	};

	fixture_start(f, IBV_QPS_RTS);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(fixture_post(f, rows[i].wr), rows[i].err);
}

static void a_list_is_taken_up_to_the_first_bad_request(void **state)
{
	struct ibv_send_wr wr[3] = {{.opcode = IBV_WR_SEND, .next = &wr[1]}, {.opcode = 99, .next = &wr[2]}}, *bad;
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
		struct fixture *f = fixture_renew(state);

		fixture_start(f, rows[i].state);
		assert_int_equal(fixture_post(f, send_of(1, 1)), rows[i].send);
		assert_int_equal(fixture_post_recv(f, 2, 1), rows[i].recv);
		if (rows[i].state == IBV_QPS_ERR) {
			expect_done(f, 1, IBV_WC_WR_FLUSH_ERR);
			expect_taken(f, 2, IBV_WC_WR_FLUSH_ERR);
		}
		expect_none(f);
		assert_int_equal(!fixture_is_silent(f), rows[i].state == IBV_QPS_RTS);
	}
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
NO_LOCK_ANALYSIS static void a_reply_that_nobody_waits_for_asks_now_and_then(void **state)
{
	static const struct {
		bool spoke;
		unsigned flags;
		uint32_t pause;
		bool asks;
	} rows[] = {
		{false, 0, 0, true},  {true, 0, 0, false}, {true, IBV_SEND_SIGNALED, 0, true},
		{true, 0, 0, false},  {false, 0, 0, true}, {true, 0, 0, false},
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

/* ... nor of several packets, nor of several requests that are posted together: the peer has said nothing since their
 * last. */
NO_LOCK_ANALYSIS static void a_long_reply_asks_no_more_often_than_a_short_one(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr[2];
	uint32_t sent = 1;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(0, 1));
	fixture_forget(f);
	for (uint32_t i = 1; i < 4; i++) {
		bool spoke = i < 3;

		if (spoke) {
			fixture_post_recv(f, i, 1);
			fixture_give(f, request(OP_SEND_ONLY, due_psn(i - 1), 1));
			fixture_forget(f);
		}
		wr[0] = send_of(2 * i, 3 * MTU);
		wr[1] = send_of(2 * i + 1, 0);
		wr[0].send_flags = wr[1].send_flags = 0;
		wr[0].next = &wr[1];
		fixture_post(f, wr[0]);
		assert_false(expect_sent(f, OP_SEND_FIRST, sent_psn(sent++))->packet.ack_request);
		assert_false(expect_sent(f, OP_SEND_MIDDLE, sent_psn(sent++))->packet.ack_request);
		assert_false(expect_sent(f, OP_SEND_LAST, sent_psn(sent++))->packet.ack_request);
		assert_int_equal(expect_sent(f, OP_SEND_ONLY, sent_psn(sent++))->packet.ack_request, !spoke);
		fixture_forget(f);
	}
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

static void a_long_read_is_one_request_to_the_application(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[4];
	uint32_t packets = 4 * MEMORY / 4096, n = 0;

	f->attr.path_mtu = IBV_MTU_4096;
	fixture_start(f, IBV_QPS_RTS);
	for (int i = 0; i < 4; i++)
		sge[i] = fixture_sge(f, 0, MEMORY);
	fixture_post(f,
		     (struct ibv_send_wr){
			     .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .sg_list = sge, .num_sge = 4, SIGNALED, REMOTE});
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

/* Peers see the completion of what they sent before what this end did next. rows of {lengths of two SENDs, whether an
 * ACK can end their train, which the receiver takes in another order; or nobody there minds} */
static void an_ack_is_not_behind_what_comes_after_it(void **state)
{
	static const struct {
		uint32_t length[2];
		bool ends_train, answers_first;
	} rows[] = {{{64, 64}, true},
		    {{64, 32}, false},
		    {{MTU + 1, 0}, false},
		    {{0, 0}, false},
		    {{8, 8}, true},
		    {{64, 32}, .answers_first = true},
		    {{0, 0}, .answers_first = true}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);
		struct ibv_sge sge[2];
		struct ibv_send_wr second = {.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge[1], SIGNALED};
		struct ibv_send_wr first = {
			.wr_id = 1, .next = &second, .opcode = IBV_WR_SEND, .sg_list = &sge[0], SIGNALED};
		struct packet p = request(OP_SEND_ONLY, due_psn(0), 64);
		uint32_t at = 0;

		fixture_start(f, IBV_QPS_RTS);
		f->qp->answers_first = rows[i].answers_first;
		for (uint32_t k = 0; k < 2; k++)
			sge[k] = fixture_sge(f, 0, rows[i].length[k]);
		first.num_sge = second.num_sge = 1;
		fixture_post_recv(f, 1, 64);
		p.ack_request = true;
		f->delay_ack = true;
		fixture_give(f, p);
		f->delay_ack = false; /* as it is when something is posted */
		fixture_post(f, first);
		while (f->sent[at].packet.opcode != OP_ACKNOWLEDGE)
			at++;
		assert_int_equal(at, rows[i].ends_train || rows[i].answers_first ? 2 : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_ack_is_not_behind_what_comes_after_it),
		TEST(requests_become_packets),
		TEST(the_next_request_is_behind_the_responses_of_a_read),
		TEST(gathered_data_cross_pieces_and_packets),
		TEST(inline_data_are_taken_when_posted),
		TEST(nothing_follows_what_could_not_be_read),
		TEST(bad_requests_are_refused),
		TEST(a_list_is_taken_up_to_the_first_bad_request),
		TEST(a_slot_is_free_when_its_completion_is_polled),
		TEST(posting_depends_on_the_state),
		TEST(one_ack_covers_what_was_posted_together),
		TEST(a_reply_that_nobody_waits_for_asks_now_and_then),
		TEST(a_long_reply_asks_no_more_often_than_a_short_one),
		TEST(a_train_is_begun_when_all_of_it_has_room),
		TEST(a_write_goes_in_pieces_where_one_has_been),
		TEST(reads_and_atomics_wait_for_their_turn),
		TEST(a_fence_waits_for_reads_and_atomics),
		TEST(draining_waits_for_what_is_on_the_way),
		TEST(an_idle_queue_is_drained_at_once_and_only_if_asked),
		TEST(a_long_read_is_one_request_to_the_application),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
