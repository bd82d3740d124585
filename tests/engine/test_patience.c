/* SPDX-License-Identifier: BSD-2-Clause */
/* A local peer's message that finds no receive: for a while its sender gets no answer; then NAK_AGAIN, or the RNR
 * NAK. */
#include <stdlib.h>

#include "fixture.h"

#define PATIENCE (4 * MSEC)

enum { LARGE = 4096 };

static void start(struct fixture *f)
{
	fixture_start(f, IBV_QPS_RTS);
	lock_take(&f->qp->lock);
	assert_true(engine_change_link(f->qp, LARGE));
	lock_drop(&f->qp->lock);
}

static void give(struct fixture *f, uint32_t n)
{
	fixture_give(f, request(OP_SEND_ONLY, due_psn(n), 8));
}

static void a_receive_that_comes_soon_is_in_time(void **state)
{
	struct fixture *f = *state;

	start(f);
	give(f, 0);
	give(f, 1); /* those behind it are dropped, too */
	fixture_wait(f, PATIENCE / 2);
	expect_silence(f);
	fixture_post_recv(f, 1, 8);
	fixture_wait(f, PATIENCE / 2);
	expect_ack(f, due_psn(0), NAK_AGAIN);
	fixture_post_recv(f, 2, 8);
	give(f, 0);
	give(f, 1);
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_taken(f, 2, IBV_WC_SUCCESS);
	fixture_forget(f);
	fixture_wait(f, PATIENCE);
	expect_silence(f);
}

static void one_that_comes_too_late_is_not(void **state)
{
	struct fixture *f = *state;

	start(f);
	give(f, 0);
	fixture_wait(f, PATIENCE - 1);
	expect_silence(f);
	fixture_wait(f, 2 * PATIENCE);
	expect_ack(f, due_psn(0), SYNDROME_RNR | 12);
	/* again: the patience was for the first time */
	give(f, 0);
	expect_ack(f, due_psn(0), SYNDROME_RNR | 12);
	fixture_post_recv(f, 1, 8);
	give(f, 0);
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_ack(f, due_psn(0), ACKED);
	/* and for the next message */
	give(f, 1);
	expect_silence(f);
	fixture_wait(f, 2 * PATIENCE);
	expect_ack(f, due_psn(1), SYNDROME_RNR | 12);
}

static void without_patience_the_nak_comes_at_once(void **state)
{
	struct fixture *f = *state;

	setenv("UROCE_PATIENCE", "off", 1);
	start(f);
	give(f, 0);
	unsetenv("UROCE_PATIENCE");
	expect_ack(f, due_psn(0), SYNDROME_RNR | 12);
}

static void it_may_come_again_before_it_is_asked_for(void **state)
{
	struct fixture *f = *state;

	start(f);
	give(f, 0);
	fixture_wait(f, PATIENCE / 2);
	fixture_post_recv(f, 1, 8);
	give(f, 0);
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_ack(f, due_psn(0), ACKED);
	fixture_wait(f, 2 * PATIENCE);
	expect_silence(f);
}

static void who_fails_meanwhile_says_nothing(void **state)
{
	struct fixture *f = *state;

	start(f);
	give(f, 0);
	assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	fixture_wait(f, 2 * PATIENCE);
	expect_silence(f);
}

/* It costs neither a retry nor an RNR retry. */
static void who_is_asked_sends_again(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	f->attr.retry_cnt = f->attr.rnr_retry = 0;
	start(f);
	fixture_post(f, wr);
	wr.wr_id = 2;
	fixture_post(f, wr);
	for (int i = 0; i < 3; i++) {
		for (uint32_t n = 0; n < 2; n++)
			expect_sent(f, OP_SEND_ONLY, sent_psn(n));
		fixture_give(f, ack(sent_psn(0), NAK_AGAIN));
	}
	for (uint32_t n = 0; n < 2; n++)
		expect_sent(f, OP_SEND_ONLY, sent_psn(n));
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	fixture_give(f, ack(sent_psn(0), NAK_AGAIN)); /* an old one */
	expect_silence(f);
}

/* On the wire it is reserved. */
static void over_a_network_nobody_listens_to_it(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, (struct ibv_send_wr){.wr_id = 1, .opcode = IBV_WR_SEND});
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	fixture_give(f, ack(sent_psn(0), NAK_AGAIN));
	expect_silence(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_receive_that_comes_soon_is_in_time),   TEST(one_that_comes_too_late_is_not),
		TEST(without_patience_the_nak_comes_at_once), TEST(it_may_come_again_before_it_is_asked_for),
		TEST(who_fails_meanwhile_says_nothing),	      TEST(who_is_asked_sends_again),
		TEST(over_a_network_nobody_listens_to_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
