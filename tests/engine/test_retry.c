/* SPDX-License-Identifier: BSD-2-Clause */
/* Time-outs, probes, receivers that are not ready, congestion (IBTA 9.7.5.2.8, 9.7.6). */
#include <stdlib.h>
#include <string.h>

#include "requests.h"

static void a_probe_notices_that_a_region_is_gone(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge;

	fixture_start(f, IBV_QPS_RTS);
	sge = (struct ibv_sge){IOVA, 8, f->plain->base.lkey};
	fixture_post(f, send_from(1, &sge));
	mr_deregister(f->plain);
	fixture_post(f, send_from(2, &sge));
	while (f->qp->state == IBV_QPS_RTS && fixture_wait_deadline(f))
		;
	expect_done(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_done(f, 2, IBV_WC_WR_FLUSH_ERR);
}

/* A READ that is answered later shows that one is lost, so it is the peer that is busy: all would be asked for again.
 */
static void several_reads_are_waited_for_longer_than_one(void **state)
{
	for (uint32_t count = 1; count <= 2; count++) {
		struct fixture *f = fixture_renew(state);
		uint64_t begin;

		f->attr.max_rd_atomic = 4;
		fixture_start(f, IBV_QPS_RTS);
		f->qp->req.srtt = 20 * USEC; /* a round trip has been measured */
		begin = f->now;
		for (uint32_t i = 0; i < count; i++)
			fixture_post(f, read_of(i, 8));
		fixture_run(f);
		if (count == 1)
			assert_true(engine_deadline(f->qp) - begin < 5 * MSEC);
		else
			assert_true(engine_deadline(f->qp) - begin >= 10 * MSEC);
	}
}

/* IBTA 9.7.6.1.3: between T and 4 T; the first transmission and retry_cnt retries */
static void a_silent_peer_costs_all_retries(void **state)
{
	static const struct {
		uint8_t timeout, retries;
	} rows[] = {{12, 0}, {12, 1}, {14, 2}, {14, 7}, {18, 7}, {20, 3}, {31, 1}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t t = 4096ull << rows[i].timeout, begin;
		struct fixture *f = fixture_renew(state);

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
	}
}

/* A local peer has not read the last packet: the transport timer, if it is due, waits once more; else another timer of
 * the queue pair has fired, and that changes nothing. */
static void only_a_timer_that_is_due_is_postponed(void **state)
{
	struct fixture *f = *state;
	uint64_t due, early, late;
	bool changed;

	fixture_start(f, IBV_QPS_RTS);
	lock_take(&f->qp->lock);
	changed = engine_change_link(f->qp, 16384); /* without probes */
	lock_drop(&f->qp->lock);
	assert_true(changed);
	fixture_post(f, send_of(1, 1));
	lock_take(&f->qp->lock);
	due = engine_deadline(f->qp);
	engine_postpone(f->qp, due - 1);
	early = engine_deadline(f->qp);
	engine_postpone(f->qp, due);
	late = engine_deadline(f->qp);
	lock_drop(&f->qp->lock);
	assert_true(early == due);
	assert_true(late > due);
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
		struct fixture *f = fixture_renew(state);
		uint64_t begin;

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
		struct fixture *f = fixture_renew(state);

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

/* UROCE_TIMERS; `lossless`: as a local peer. */
static struct fixture *start_with_timers(void **state, const char *timers, bool lossless)
{
	struct fixture *f = fixture_renew(state);
	bool changed = true;

	setenv("UROCE_TIMERS", timers, 1);
	fixture_start(f, IBV_QPS_RTS);
	unsetenv("UROCE_TIMERS");
	lock_take(&f->qp->lock);
	if (lossless)
		changed = engine_change_link(f->qp, 16384);
	lock_drop(&f->qp->lock);
	assert_true(changed);
	return f;
}

/* A silent peer, and one that falls silent after an ACK, half of T after the request. */
static void the_transport_timer_may_fire_at_both_ends_of_its_range(void **state)
{
	const uint64_t t = 4096ull << 14;
	static const struct {
		const char *timers;
		bool lossless;
		uint64_t silent, least, most; /* in T: of a silent peer; of the other, after its ACK */
	} rows[] = {
		{"first", false, 1, 1, 1}, {"last", false, 4, 4, 4}, {"usual", false, 3, 3, 3},
		{"first", true, 1, 1, 2},  {"last", true, 4, 3, 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = start_with_timers(state, rows[i].timers, rows[i].lossless);
		uint64_t begin = f->now;

		fixture_post(f, send_of(1, 1));
		while (f->qp->state == IBV_QPS_RTS)
			assert_true(fixture_wait_deadline(f));
		assert_int_equal(f->now - begin, (f->attr.retry_cnt + 1) * rows[i].silent * t);

		f = start_with_timers(state, rows[i].timers, rows[i].lossless);
		fixture_post(f, send_of(1, 1));
		fixture_post(f, send_of(2, 1));
		fixture_wait(f, t / 2);
		fixture_give(f, ack(sent_psn(0), ACKED));
		expect_done(f, 1, IBV_WC_SUCCESS);
		begin = f->now;
		while (f->qp->state == IBV_QPS_RTS)
			assert_true(fixture_wait_deadline(f));
		assert_in_range(f->now - begin, (f->attr.retry_cnt * rows[i].silent + rows[i].least) * t,
				(f->attr.retry_cnt * rows[i].silent + rows[i].most) * t);
	}
}

/* As long as there is progress, it does not fire. */
static void a_timer_in_pieces_counts_those_without_progress(void **state)
{
	const uint64_t t = 4096ull << 14;
	struct fixture *f = start_with_timers(state, "last", true);

	f->qp->attr.retry_cnt = f->qp->req.retries = 0;
	for (uint32_t i = 0; i <= 8; i++)
		fixture_post(f, send_of(i, 1));
	for (uint32_t i = 0; i < 8; i++) {
		fixture_wait(f, 3 * t - 1);
		fixture_give(f, ack(sent_psn(i), ACKED));
		expect_done(f, i, IBV_WC_SUCCESS);
	}
	fixture_wait(f, 4 * t);
	expect_done(f, 8, IBV_WC_RETRY_EXC_ERR);
}

static void the_rnr_timer_may_fire_late(void **state)
{
	static const struct {
		const char *timers;
		uint64_t times;
	} rows[] = {{"usual", 1}, {"first", 1}, {"last", 4}};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct fixture *f = start_with_timers(state, rows[i / 2].timers, i % 2);
		uint64_t begin;

		fixture_post(f, send_of(1, 1));
		fixture_forget(f);
		fixture_give(f, ack(sent_psn(0), SYNDROME_RNR | 12));
		begin = f->now;
		expect_silence(f);
		assert_true(fixture_wait_deadline(f));
		assert_int_equal(f->now - begin, rows[i / 2].times * rnr_times[12]);
		expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_probe_notices_that_a_region_is_gone),
		TEST(several_reads_are_waited_for_longer_than_one),
		TEST(a_silent_peer_costs_all_retries),
		TEST(timeout_0_is_for_ever),
		TEST(only_a_timer_that_is_due_is_postponed),
		TEST(progress_renews_the_retries),
		TEST(posting_more_does_not_renew_the_timer),
		TEST(a_lost_last_packet_is_probed_for),
		TEST(a_receiver_that_is_not_ready_is_waited_for),
		TEST(rnr_retries_are_counted),
		TEST(an_ack_ends_the_wait_for_the_receiver),
		TEST(congestion_shrinks_the_window_and_progress_opens_it),
		TEST(a_reset_qp_starts_afresh),
		TEST(the_transport_timer_may_fire_at_both_ends_of_its_range),
		TEST(a_timer_in_pieces_counts_those_without_progress),
		TEST(the_rnr_timer_may_fire_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
