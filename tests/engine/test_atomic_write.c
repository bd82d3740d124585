/* SPDX-License-Identifier: BSD-2-Clause */
/* ATOMIC WRITE (IBTA annex A19): eight bytes at once, answered like a READ of no bytes. */
#include "fixture.h"

#include <errno.h>
#include <string.h>

static struct ibv_send_wr write_of(uint64_t id, uint32_t length)
{
	struct ibv_send_wr wr = {
		.wr_id = id, .opcode = IBV_WR_ATOMIC_WRITE, .num_sge = (int)length, .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = 0x1000;
	wr.wr.rdma.rkey = 0x77;
	return wr;
}

static void it_is_complete_when_it_is_answered(void **state)
{
	struct fixture *f = *state;
	const struct sent *s;

	fixture_start(f, IBV_QPS_RTS);
	memcpy(f->memory, "\1\2\3\4\5\6\7", 8);
	fixture_post(f, write_of(1, 8));
	s = expect_sent(f, OP_ATOMIC_WRITE, sent_psn(0));
	assert_int_equal(s->packet.va, 0x1000);
	assert_int_equal(s->packet.rkey, 0x77);
	assert_int_equal(s->packet.dma_length, 8);
	assert_int_equal(s->packet.length, 8);
	assert_memory_equal(s->payload, "\1\2\3\4\5\6\7", 8);
	fixture_give(f, ack(sent_psn(0), ACKED)); /* that is no answer */
	expect_none(f);
	fixture_forget(f); /* asked again */
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(0), 0));
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).opcode, IBV_WC_ATOMIC_WRITE);
}

static void an_answer_with_data_is_wrong(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, write_of(1, 8));
	expect_sent(f, OP_ATOMIC_WRITE, sent_psn(0));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(0), 8));
	expect_done(f, 1, IBV_WC_BAD_RESP_ERR);
}

/* Inline, it needs no room for inline data in the queue. */
static void its_bytes_may_be_inline(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = {.length = 8};
	struct ibv_send_wr wr = write_of(1, 0), *bad;

	f->cap.max_inline_data = 0;
	fixture_start(f, IBV_QPS_RTS);
	sge.addr = (uintptr_t) "inlined";
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags |= IBV_SEND_INLINE;
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, &wr, &bad), 0);
	sge.length = 9;
	assert_int_equal(engine_post_send(f->qp, &wr, &bad), EINVAL);
	lock_drop(&f->qp->lock);
	fixture_run(f);
	assert_memory_equal(expect_sent(f, OP_ATOMIC_WRITE, sent_psn(0))->payload, "inlined", 8);
}

static void it_writes_a_word(void **state)
{
	static const uint32_t lengths[] = {0, 4, 7, 9, 16};

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct fixture *f = fixture_renew(state);

		fixture_start(f, IBV_QPS_RTS);
		fixture_post(f, write_of(1, lengths[i]));
		expect_done(f, 1, IBV_WC_LOC_LEN_ERR);
	}
}

static void it_is_executed_once(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	fixture_start(f, IBV_QPS_RTS);
	p = aimed(f, OP_ATOMIC_WRITE, due_psn(0), 8, 64, 8);
	fixture_give(f, p);
	assert_int_equal(expect_sent(f, OP_READ_RESPONSE_ONLY, due_psn(0))->packet.length, 0);
	assert_memory_equal(f->memory + 64, f->payload, 8);
	memset(f->memory + 64, 0, 8); /* what came later must stay */
	fixture_give(f, p);
	expect_sent(f, OP_READ_RESPONSE_ONLY, due_psn(0));
	assert_int_equal(f->memory[64], 0);
	fixture_give(f, request(OP_WRITE_ONLY, due_psn(1), 0)); /* a message of its own, one PSN long */
	fixture_wait(f, SEC);
	expect_ack(f, due_psn(1), ACKED);
}

static void what_is_not_allowed_is_refused(void **state)
{
	static const struct {
		uint32_t length, offset, dma_length;
		unsigned access; /* of the QP */
		uint8_t answer;
	} rows[] = {
		{8, 4, 8, IBV_ACCESS_REMOTE_WRITE, NAK_INVALID_REQUEST},
		{4, 64, 4, IBV_ACCESS_REMOTE_WRITE, NAK_INVALID_REQUEST},
		{8, 64, 16, IBV_ACCESS_REMOTE_WRITE, NAK_INVALID_REQUEST},
		{16, 64, 16, IBV_ACCESS_REMOTE_WRITE, NAK_INVALID_REQUEST},
		{8, 64, 8, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, NAK_INVALID_REQUEST},
		{8, 1u << 30, 8, IBV_ACCESS_REMOTE_WRITE, NAK_REMOTE_ACCESS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);

		f->attr.qp_access_flags = rows[i].access;
		fixture_start(f, IBV_QPS_RTS);
		fixture_give(f,
			     aimed(f, OP_ATOMIC_WRITE, due_psn(0), rows[i].length, rows[i].offset, rows[i].dma_length));
		expect_ack(f, due_psn(0), rows[i].answer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_is_complete_when_it_is_answered),
		TEST(an_answer_with_data_is_wrong),
		TEST(its_bytes_may_be_inline),
		TEST(it_writes_a_word),
		TEST(it_is_executed_once),
		TEST(what_is_not_allowed_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
