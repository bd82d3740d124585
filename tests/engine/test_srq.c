/* SPDX-License-Identifier: BSD-2-Clause */
/* A QP with a shared receive queue: which QP gets which receive, which event reports that they run low, and what a
 * failed QP leaves alone. */
#include <errno.h>
#include <string.h>

#include "fixture.h"

enum { DEPTH = 8, SGES = 3 };

static struct fixture *start(void **state)
{
	struct fixture *f = *state;

	f->srq = srq_create(&f->hca, &f->pd, NULL, NULL, DEPTH, SGES);
	assert_non_null(f->srq);
	fixture_start(f, IBV_QPS_RTS);
	return f;
}

static int post(struct fixture *f, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = fixture_sge(f, MEMORY / 2, length);
	struct ibv_recv_wr *bad = NULL, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	int err = srq_post(f->srq, &wr, &bad);

	assert_true(!err == !bad);
	return err;
}

/* The n-th message comes. */
static void give(struct fixture *f, uint32_t n)
{
	fixture_give(f, request(OP_SEND_ONLY, due_psn(n), 16));
}

static void messages_take_receives_in_order(void **state)
{
	struct fixture *f = start(state);
	struct cqe c;

	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(post(f, 100 + i, 64), 0);
	for (uint32_t i = 0; i < 3; i++) {
		give(f, i);
		expect_ack(f, due_psn(i), ACKED);
		c = expect_taken(f, 100 + i, IBV_WC_SUCCESS);
		assert_int_equal(c.qpn, f->qp->base.qp_num);
		assert_int_equal(c.byte_len, 16);
		assert_memory_equal(f->memory + MEMORY / 2, f->payload, 16);
	}
	give(f, 3);
	expect_ack(f, due_psn(3), SYNDROME_RNR | 12);
	assert_int_equal(post(f, 103, 64), 0);
	give(f, 3);
	expect_ack(f, due_psn(3), ACKED);
	expect_taken(f, 103, IBV_WC_SUCCESS);
}

/* A slot is free when its receive is taken, polled or not; so completions may come in any order. */
static void the_queue_takes_as_many_as_it_says(void **state)
{
	struct fixture *f = start(state);

	for (uint32_t i = 0; i < DEPTH; i++)
		assert_int_equal(post(f, i, 64), 0);
	assert_int_equal(post(f, 99, 64), ENOMEM);
	give(f, 0);
	assert_int_equal(post(f, DEPTH, 64), 0);
	assert_int_equal(post(f, 99, 64), ENOMEM);
	for (uint32_t i = 1; i <= DEPTH; i++)
		give(f, i);
	for (uint32_t i = 0; i <= DEPTH; i++)
		expect_taken(f, i, IBV_WC_SUCCESS);
}

static void a_receive_has_as_many_pieces_as_the_queue_says(void **state)
{
	struct fixture *f = start(state);
	struct ibv_sge sges[SGES + 1];
	struct ibv_recv_wr *bad = NULL, wr = {.wr_id = 5, .sg_list = sges, .num_sge = SGES};

	for (uint32_t i = 0; i <= SGES; i++)
		sges[i] = fixture_sge(f, MEMORY / 2 + 100 * i, 10);
	assert_int_equal(srq_post(f->srq, &wr, &bad), 0);
	wr.num_sge = SGES + 1;
	assert_int_equal(srq_post(f->srq, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 30));
	expect_taken(f, 5, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < SGES; i++)
		assert_memory_equal(f->memory + MEMORY / 2 + 100 * i, f->payload + 10 * i, 10);
}

static void a_list_is_posted_up_to_the_bad_one(void **state)
{
	struct fixture *f = start(state);
	struct ibv_recv_wr *bad = NULL, wr[3] = {
						{.wr_id = 1, .next = &wr[1]},
						{.wr_id = 2, .next = &wr[2], .num_sge = -1},
						{.wr_id = 3},
					};

	assert_int_equal(srq_post(f->srq, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 0));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	give(f, 1);
	fixture_forget(f);
	expect_none(f);
}

static void its_own_queue_is_none(void **state)
{
	struct fixture *f = start(state);

	assert_int_equal(fixture_post_recv(f, 1, 64), EINVAL);
	give(f, 0);
	expect_ack(f, due_psn(0), SYNDROME_RNR | 12);
}

/* rows of {receives posted, limit, messages that come, events after it, limit left} */
static void the_limit_is_told_once(void **state)
{
	static const struct {
		uint32_t posted, limit, messages, events, left;
	} rows[] = {
		{5, 0, 5, 0, 0}, /* not armed */
		{5, 3, 2, 0, 3}, /* 3 are left: not below */
		{5, 3, 3, 1, 0}, /* 2 are left */
		{5, 3, 5, 1, 0}, /* ... and once only */
		{5, 1, 4, 0, 1},
		{5, 1, 5, 1, 0},
		{2, 3, 0, 1, 0}, /* already below: at once */
		{DEPTH, DEPTH, 0, 0, DEPTH},
		{DEPTH, DEPTH, 1, 1, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f;

		fixture_renew(state);
		f = start(state);
		for (uint32_t n = 0; n < rows[i].posted; n++)
			assert_int_equal(post(f, n, 64), 0);
		assert_int_equal(srq_modify(f->srq, 0, rows[i].limit, IBV_SRQ_LIMIT), 0);
		for (uint32_t n = 0; n < rows[i].messages; n++)
			give(f, n);
		if (f->event[IBV_EVENT_SRQ_LIMIT_REACHED] != rows[i].events || f->srq->limit != rows[i].left)
			fail_msg("row %zu: %u events, limit %u", i, f->event[IBV_EVENT_SRQ_LIMIT_REACHED],
				 f->srq->limit);
	}
}

/* rows of {receives posted, new size, new limit, which of the two, result} */
static void it_is_resized_or_left_as_it_was(void **state)
{
	static const struct {
		uint32_t posted, depth, limit;
		int mask, error;
	} rows[] = {
		{0, 1, 0, IBV_SRQ_MAX_WR, 0},
		{5, 5, 0, IBV_SRQ_MAX_WR, 0},
		{5, 4, 0, IBV_SRQ_MAX_WR, -EINVAL},
		{5, 1000, 0, IBV_SRQ_MAX_WR, 0},
		{5, 1000, 999, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, 0},
		{5, 6, 7, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, -EINVAL},
		{5, 4, 3, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, -EINVAL},
		{5, 0, DEPTH + 1, IBV_SRQ_LIMIT, -EINVAL},
		{5, 0, DEPTH + 1, 0, 0}, /* nothing is asked for */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool resized = !rows[i].error && (rows[i].mask & IBV_SRQ_MAX_WR);
		uint32_t depth = resized ? rows[i].depth : DEPTH, n = 0;
		struct fixture *f;

		fixture_renew(state);
		f = start(state);
		/* begin elsewhere than at the start of the ring */
		for (; n < 3; n++) {
			assert_int_equal(post(f, n, 64), 0);
			give(f, n);
			expect_taken(f, n, IBV_WC_SUCCESS);
		}
		for (; n < 3 + rows[i].posted; n++)
			assert_int_equal(post(f, n, 64), 0);
		assert_int_equal(srq_modify(f->srq, rows[i].depth, rows[i].limit, rows[i].mask), rows[i].error);
		assert_int_equal(f->srq->rq.depth, depth);
		for (; n < 3 + depth; n++)
			assert_int_equal(post(f, n, 64), 0);
		assert_int_equal(post(f, 9999, 64), ENOMEM);
		for (n = 3; n < min_of(3 + depth, 100u); n++) {
			give(f, n);
			expect_taken(f, n, IBV_WC_SUCCESS);
		}
	}
}

/* What it has begun with is flushed; all others are for other QPs. */
static void a_failed_qp_leaves_the_queue_alone(void **state)
{
	struct fixture *f = start(state);

	assert_int_equal(post(f, 1, 1024), 0);
	assert_int_equal(post(f, 2, 1024), 0);
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU));
	assert_int_equal(f->event[IBV_EVENT_QP_LAST_WQE_REACHED], 0);
	assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	expect_taken(f, 1, IBV_WC_WR_FLUSH_ERR);
	expect_none(f);
	assert_int_equal(f->event[IBV_EVENT_QP_LAST_WQE_REACHED], 1);
	assert_int_equal(f->srq->rq.tail - f->srq->rq.head, 1);
	assert_int_equal(post(f, 3, 64), 0); /* which flushes nothing */
	assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	expect_none(f);
	assert_int_equal(f->event[IBV_EVENT_QP_LAST_WQE_REACHED], 1);
}

static void a_bad_receive_fails_the_qp_and_not_the_queue(void **state)
{
	struct fixture *f = start(state);
	struct ibv_sge sge = fixture_sge(f, 0, 64);
	struct ibv_recv_wr *bad, wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};

	sge.lkey = f->foreign->base.lkey;
	assert_int_equal(srq_post(f->srq, &wr, &bad), 0);
	assert_int_equal(post(f, 2, 64), 0);
	give(f, 0);
	expect_ack(f, due_psn(0), NAK_REMOTE_OPERATION);
	expect_taken(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_none(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(f->event[IBV_EVENT_QP_FATAL], 1);
	assert_int_equal(f->event[IBV_EVENT_QP_LAST_WQE_REACHED], 1);
	assert_int_equal(f->event[IBV_EVENT_SRQ_ERR], 0);
	assert_int_equal(f->srq->rq.tail - f->srq->rq.head, 1);
}

static void a_reset_qp_leaves_the_queue_alone(void **state)
{
	struct fixture *f = start(state);
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	assert_int_equal(post(f, 1, 64), 0);
	assert_int_equal(post(f, 2, 64), 0);
	give(f, 0);
	assert_int_equal(fixture_modify(f, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE), 0);
	for (size_t i = 0; i < ARRAY_SIZE(way); i++)
		assert_int_equal(fixture_move(f, way[i]), 0);
	expect_none(f);
	give(f, 0);
	expect_taken(f, 2, IBV_WC_SUCCESS);
}

static void it_counts_who_uses_it(void **state)
{
	struct fixture *f = start(state);

	assert_int_equal(f->srq->users, 1);
	qp_destroy(f->qp);
	f->qp = NULL;
	assert_int_equal(f->srq->users, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(messages_take_receives_in_order),
		TEST(the_queue_takes_as_many_as_it_says),
		TEST(a_receive_has_as_many_pieces_as_the_queue_says),
		TEST(a_list_is_posted_up_to_the_bad_one),
		TEST(its_own_queue_is_none),
		TEST(the_limit_is_told_once),
		TEST(it_is_resized_or_left_as_it_was),
		TEST(a_failed_qp_leaves_the_queue_alone),
		TEST(a_bad_receive_fails_the_qp_and_not_the_queue),
		TEST(a_reset_qp_leaves_the_queue_alone),
		TEST(it_counts_who_uses_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
