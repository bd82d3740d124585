/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a request, from records that a table gives: who did what when, at which end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/views.h"
#include "tools/trace/life.h"
#include "tools/trace/summary.h"
#include "wire/packet.h"

#define A 0x010001 /* the queue pair of file 0 */
#define B 0x020002 /* of file 1 */

/* Records are written down in order of time, 10 ns apart unless a row says otherwise. */
static struct record all[256];
static struct source sources[3];
static struct records records;
static uint64_t now;

static int start(void **state)
{
	memset(all, 0, sizeof(all));
	memset(sources, 0, sizeof(sources));
	records = (struct records){sources, all, 3, 0};
	for (int i = 0; i < 3; i++)
		sources[i].name = "file";
	now = 1000;
	return 0;
}

static void at(uint16_t file, enum trace_point point, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
	       uint64_t f)
{
	all[records.count++] = (struct record){now += 10, file, (uint16_t)point, 1, {a, b, c, d, e, f}};
}

static void connected(void)
{
	at(0, TRACE_connect, A, B, 0, 500, 1024, 0);
	at(1, TRACE_connect, B, A, 0, 100, 1024, 0);
	at(0, TRACE_connect, A, B, 100, 500, 1024, 0);
	at(1, TRACE_connect, B, A, 500, 100, 1024, 0);
}

static void packet(uint64_t psn, uint64_t opcode, uint64_t wqe)
{
	at(0, TRACE_build, A, B, psn, opcode, 64, wqe);
	at(0, TRACE_send, B, psn, opcode, 64, 80, 0);
	at(1, TRACE_receive, B, psn, opcode, 64, 0, 0);
	at(1, TRACE_execute, B, psn, opcode, 0, 64, 0);
}

static void answered(uint64_t psn, uint64_t syndrome)
{
	at(1, TRACE_acknowledge, B, A, psn, syndrome, 1, 0);
	at(1, TRACE_send, A, psn, OP_ACKNOWLEDGE, 0, 20, 0);
	at(0, TRACE_receive, A, psn, OP_ACKNOWLEDGE, 0, 0, 0);
	at(0, TRACE_acknowledged, A, psn, syndrome, 1, OP_ACKNOWLEDGE, 0);
}

static uint32_t steps_of(const struct joined *j, const struct request *q)
{
	uint32_t n = 0;

	for (uint32_t s = q->first; s != NO_STEP; s = j->steps[s].next)
		n++;
	return n;
}

static void is_in_order(const struct request *q, enum milestone last)
{
	for (int m = POSTED; m <= (int)last; m++) {
		assert_true(q->when[m] != NEVER);
		assert_true(m == POSTED || q->when[m] > q->when[m - 1]);
	}
}

static void a_send_is_followed_from_post_to_both_polls(void **state)
{
	struct joined j;

	connected();
	at(1, TRACE_post_recv, B, 7, 0x77, 0, 4096, 0);
	at(0, TRACE_post_send, A, 3, 0x33, IBV_WR_SEND, 64, IBV_SEND_SIGNALED);
	at(0, TRACE_pickup, A, 3, 100, 1, IBV_WR_SEND, 0);
	at(0, TRACE_build, A, B, 100, OP_SEND_ONLY, 64, 3);
	at(0, TRACE_send, B, 100, OP_SEND_ONLY, 64, 80, 0);
	at(1, TRACE_receive, B, 100, OP_SEND_ONLY, 64, 0, 0);
	at(1, TRACE_match, B, 7, 0x77, 100, 0, 0);
	at(1, TRACE_execute, B, 100, OP_SEND_ONLY, 0, 64, 0);
	at(1, TRACE_complete_recv, B, 7, 0x77, 0, IBV_WC_RECV, 64);
	at(1, TRACE_poll, B, 0x77, 0, IBV_WC_RECV, 0, 0);
	answered(100, 0x1f);
	at(0, TRACE_complete, A, 3, 0x33, 0, IBV_WR_SEND, 64);
	at(0, TRACE_poll, A, 0x33, 0, IBV_WC_SEND, 0, 0);

	join(&j, &records);
	assert_int_equal(j.request_count, 1);
	is_in_order(&j.requests[0], POLLED);
	assert_int_equal(j.requests[0].status, IBV_WC_SUCCESS);
	assert_int_equal(steps_of(&j, &j.requests[0]), 15);
	assert_int_equal(j.requests[0].receive_posted, 1050);
	assert_true(j.requests[0].when[RECEIVE_POLLED] > j.requests[0].when[RECEIVE_COMPLETED]);
	assert_int_equal(j.partial, 0);
	join_free(&j);
}

static void one_ack_answers_all_before_it(void **state)
{
	struct joined j;

	connected();
	for (uint32_t i = 0; i < 5; i++) {
		at(0, TRACE_post_send, A, i, i, IBV_WR_RDMA_WRITE, 64, i == 4 ? IBV_SEND_SIGNALED : 0);
		at(0, TRACE_pickup, A, i, 100 + i, 1, IBV_WR_RDMA_WRITE, 0);
		packet(100 + i, OP_WRITE_ONLY, i);
	}
	answered(103, 0x1f);
	for (uint32_t i = 0; i < 4; i++)
		at(0, TRACE_complete, A, i, i, 0, IBV_WR_RDMA_WRITE, 64);

	join(&j, &records);
	for (uint32_t i = 0; i < 4; i++) {
		is_in_order(&j.requests[i], COMPLETED);
		assert_true(j.requests[i].when[POLLED] == NEVER);
	}
	assert_true(j.requests[4].when[ANSWERED] == NEVER);
	assert_int_equal(j.requests[4].status, -1);
	join_free(&j);
}

static void a_read_is_answered_by_its_data(void **state)
{
	struct joined j;

	connected();
	at(0, TRACE_post_send, A, 0, 1, IBV_WR_RDMA_READ, 2048, IBV_SEND_SIGNALED);
	at(0, TRACE_pickup, A, 0, 100, 2, IBV_WR_RDMA_READ, 0);
	at(0, TRACE_build, A, B, 100, OP_READ_REQUEST, 0, 0);
	at(0, TRACE_send, B, 100, OP_READ_REQUEST, 0, 32, 0);
	at(1, TRACE_receive, B, 100, OP_READ_REQUEST, 0, 0, 0);
	at(1, TRACE_execute, B, 100, OP_READ_RESPONSE_FIRST, 0x1000, 1024, 0);
	at(1, TRACE_build, B, A, 100, OP_READ_RESPONSE_FIRST, 1024, 0);
	at(1, TRACE_execute, B, 101, OP_READ_RESPONSE_LAST, 0x1400, 1024, 0);
	at(1, TRACE_build, B, A, 101, OP_READ_RESPONSE_LAST, 1024, 0);
	at(1, TRACE_send, A, 100, OP_READ_RESPONSE_FIRST, 1024, 1044, 0);
	at(1, TRACE_send, A, 101, OP_READ_RESPONSE_LAST, 1024, 1044, 0);
	for (uint32_t i = 0; i < 2; i++) {
		uint8_t opcode = i ? OP_READ_RESPONSE_LAST : OP_READ_RESPONSE_FIRST;

		at(0, TRACE_receive, A, 100 + i, opcode, 1024, 0, 0);
		at(0, TRACE_acknowledged, A, 100 + i, 0x1f, 1, opcode, 0);
		at(0, TRACE_execute, A, 100 + i, opcode, i * 1024, 1024, 0);
	}
	at(0, TRACE_complete, A, 0, 1, 0, IBV_WR_RDMA_READ, 2048);
	at(0, TRACE_poll, A, 1, 0, IBV_WC_RDMA_READ, 0, 0);

	join(&j, &records);
	is_in_order(&j.requests[0], POLLED);
	/* executed where the memory was read */
	assert_int_equal(j.requests[0].when[EXECUTED], all[11].time);
	join_free(&j);
}

static void a_nak_answers_nothing(void **state)
{
	struct joined j;

	connected();
	for (uint32_t i = 0; i < 2; i++) {
		at(0, TRACE_post_send, A, i, i, IBV_WR_RDMA_WRITE, 64, IBV_SEND_SIGNALED);
		at(0, TRACE_pickup, A, i, 100 + i, 1, IBV_WR_RDMA_WRITE, 0);
		at(0, TRACE_build, A, B, 100 + i, OP_WRITE_ONLY, 64, i);
		at(0, TRACE_send, B, 100 + i, OP_WRITE_ONLY, 64, 80, 0);
	}
	at(1, TRACE_receive, B, 101, OP_WRITE_ONLY, 64, 0, 0); /* 100 is lost */
	at(1, TRACE_drop, B, 101, OP_WRITE_ONLY, 2, 0, 0);
	answered(100, NAK_SEQUENCE);
	at(0, TRACE_retry, A, 0, 100, 0, 7, 0);
	packet(100, OP_WRITE_ONLY, 0);
	packet(101, OP_WRITE_ONLY, 1);
	assert_true(records.count < 256);
	now += 1000;
	answered(101, 0x1f);
	for (uint32_t i = 0; i < 2; i++)
		at(0, TRACE_complete, A, i, i, 0, IBV_WR_RDMA_WRITE, 64);

	join(&j, &records);
	assert_int_equal(j.requests[0].retries, 1);
	for (int i = 0; i < 2; i++) {
		is_in_order(&j.requests[i], COMPLETED);
		assert_true(j.requests[i].when[ANSWERED] > j.requests[i].when[EXECUTED] + 500);
	}
	join_free(&j);
}

static void psns_wrap(void **state)
{
	struct joined j;

	connected();
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t p = (0xfffffd + 2 * i) & PSN_MASK;

		at(0, TRACE_post_send, A, i, i, IBV_WR_RDMA_WRITE, 2048, IBV_SEND_SIGNALED);
		at(0, TRACE_pickup, A, i, p, 2, IBV_WR_RDMA_WRITE, 0);
		packet(p, OP_WRITE_FIRST, i);
		packet((p + 1) & PSN_MASK, OP_WRITE_LAST, i);
	}
	answered((0xfffffd + 7) & PSN_MASK, 0x1f);
	for (uint32_t i = 0; i < 4; i++)
		at(0, TRACE_complete, A, i, i, 0, IBV_WR_RDMA_WRITE, 2048);
	join(&j, &records);
	for (uint32_t i = 0; i < 4; i++) {
		is_in_order(&j.requests[i], COMPLETED);
		/* post, pickup, four for each packet, four for the ACK, complete */
		assert_int_equal(steps_of(&j, &j.requests[i]), 2 + 8 + 4 + 1);
	}
	join_free(&j);
}

static void one_end_alone_shows_its_half(void **state)
{
	struct joined j;

	at(0, TRACE_post_send, A, 0, 1, IBV_WR_SEND, 64, IBV_SEND_SIGNALED);
	at(0, TRACE_pickup, A, 0, 100, 1, IBV_WR_SEND, 0);
	at(0, TRACE_build, A, B, 100, OP_SEND_ONLY, 64, 0);
	at(0, TRACE_send, B, 100, OP_SEND_ONLY, 64, 80, 0);
	at(0, TRACE_receive, A, 100, OP_ACKNOWLEDGE, 0, 0, 0);
	at(0, TRACE_acknowledged, A, 100, 0x1f, 1, OP_ACKNOWLEDGE, 0);
	at(0, TRACE_complete, A, 0, 1, 0, IBV_WR_SEND, 64);
	at(0, TRACE_poll, A, 1, 0, IBV_WC_SEND, 0, 0);
	join(&j, &records);
	assert_int_equal(j.conns[j.requests[0].conn].peer, NO_CONN);
	assert_true(j.requests[0].when[ARRIVED] == NEVER);
	assert_true(j.requests[0].when[ANSWER_ARRIVED] < j.requests[0].when[COMPLETED]);
	assert_true(j.requests[0].when[POLLED] != NEVER);
	join_free(&j);
}

static void polls_find_their_requests_among_equal_ids(void **state)
{
	struct joined j;

	connected();
	for (uint32_t i = 0; i < 6; i++) { /* every third has a CQE; all have wr_id 0 */
		at(0, TRACE_post_send, A, i, 0, IBV_WR_RDMA_WRITE, 8, i % 3 == 2 ? IBV_SEND_SIGNALED : 0);
		at(0, TRACE_pickup, A, i, 100 + i, 1, IBV_WR_RDMA_WRITE, 0);
		at(0, TRACE_complete, A, i, 0, 0, IBV_WR_RDMA_WRITE, 8);
	}
	at(0, TRACE_poll, A, 0, 0, IBV_WC_RDMA_WRITE, 0, 0);
	at(0, TRACE_poll, A, 0, 0, IBV_WC_RDMA_WRITE, 0, 0);
	join(&j, &records);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(j.requests[i].when[POLLED] != NEVER, i % 3 == 2);
	join_free(&j);
}

static void a_number_that_is_used_again_is_another_queue_pair(void **state)
{
	struct joined j;

	for (int life = 0; life < 2; life++) {
		at(0, TRACE_qp_state, A, IBV_QPS_RESET, IBV_QPS_INIT, 0, 0, 0);
		connected();
		at(0, TRACE_post_send, A, 0, 5, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
		at(0, TRACE_pickup, A, 0, 100, 1, IBV_WR_RDMA_WRITE, 0);
		packet(100, OP_WRITE_ONLY, 0);
		answered(100, 0x1f);
		at(0, TRACE_complete, A, 0, 5, 0, IBV_WR_RDMA_WRITE, 8);
		at(0, TRACE_poll, A, 5, 0, IBV_WC_RDMA_WRITE, 0, 0);
	}
	join(&j, &records);
	assert_int_equal(j.request_count, 2);
	for (int i = 0; i < 2; i++)
		is_in_order(&j.requests[i], POLLED);
	join_free(&j);
}

static void both_ends_in_one_file(void **state)
{
	struct joined j;

	connected();
	at(0, TRACE_post_send, A, 0, 5, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
	at(0, TRACE_pickup, A, 0, 100, 1, IBV_WR_RDMA_WRITE, 0);
	packet(100, OP_WRITE_ONLY, 0);
	answered(100, 0x1f);
	at(0, TRACE_complete, A, 0, 5, 0, IBV_WR_RDMA_WRITE, 8);
	for (uint32_t i = 0; i < records.count; i++)
		all[i].file = 0;
	join(&j, &records);
	is_in_order(&j.requests[0], COMPLETED);
	join_free(&j);
}

static void a_third_file_with_the_same_numbers_is_told_apart(void **state)
{
	struct joined j;

	at(2, TRACE_connect, B, A, 900, 901, 1024, 0); /* on another host, with another peer */
	connected();
	at(0, TRACE_post_send, A, 0, 5, IBV_WR_RDMA_WRITE, 8, 0);
	at(0, TRACE_pickup, A, 0, 100, 1, IBV_WR_RDMA_WRITE, 0);
	packet(100, OP_WRITE_ONLY, 0);
	join(&j, &records);
	assert_int_equal(j.conns[j.conns[j.requests[0].conn].peer].file, 1);
	is_in_order(&j.requests[0], EXECUTED);
	join_free(&j);
}

static void the_table_has_medians_and_percentiles(void **state)
{
	static const struct span span = {"", POSTED, PICKED_UP};
	uint32_t which[100];
	struct spread s;
	struct joined j;

	for (uint32_t i = 0; i < 100; i++) { /* it takes 100, 99, ... 1 times 10 ns */
		at(0, TRACE_post_send, A, i, 0, i == 50 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 8, 0);
		which[i] = i;
	}
	for (uint32_t i = 0; i < 100; i++)
		at(0, TRACE_pickup, A, 99 - i, 100 + i, 1, IBV_WR_RDMA_WRITE, 0);
	join(&j, &records);
	s = measure(&j, which, 100, IBV_WR_RDMA_WRITE, &span);
	assert_int_equal(s.count, 99);
	assert_int_equal(s.min, 10);
	assert_int_equal(s.max, 1990);
	assert_int_equal(s.p99, 1990);
	assert_int_equal(measure(&j, which, 100, IBV_WR_SEND, &span).count, 1);
	assert_int_equal(measure(&j, which, 100, IBV_WR_RDMA_READ, &span).count, 0);
	join_free(&j);
}

/* A character of each arrow of packet 100 in the ladder diagram of the first request, in order. */
static void arrows_end_in(const char *ends)
{
	char *text, got[16] = "";
	size_t size;
	FILE *to = open_memstream(&text, &size);
	struct joined j;

	join(&j, &records);
	print_ladder(&j, &j.requests[0], to);
	fclose(to);
	for (const char *at = text; (at = strstr(at, " SEND ONLY "));) {
		at = strchr(at, '|');
		strncat(got, at - 1, 1);
	}
	assert_string_equal(got, ends);
	free(text);
	join_free(&j);
}

static void sent_once(void)
{
	at(0, TRACE_build, A, B, 100, OP_SEND_ONLY, 64, 3);
	at(0, TRACE_send, B, 100, OP_SEND_ONLY, 64, 80, 0);
}

/* Sent three times: each letter is a send or a receive. */
static void an_arrow_ends_where_its_packet_arrived(void **state)
{
	static const struct {
		const char *order, *ends;
	} rows[] = {
		{"sr", ">"},	{"s", "X"},	 {"ssr", "X>"},	   {"srs", ">X"},    {"srsr", ">>"},
		{"ssrr", ">>"}, {"sssr", "XX>"}, {"srssr", ">X>"}, {"ssrsr", "X>>"}, {"sssrr", "X>>"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start(state);
		connected();
		at(0, TRACE_post_send, A, 3, 0x33, IBV_WR_SEND, 64, IBV_SEND_SIGNALED);
		at(0, TRACE_pickup, A, 3, 100, 1, IBV_WR_SEND, 0);
		for (const char *c = rows[i].order; *c; c++) {
			if (*c == 's')
				sent_once();
			else
				at(1, TRACE_receive, B, 100, OP_SEND_ONLY, 64, 0, 0);
		}
		arrows_end_in(rows[i].ends);
	}
}

static void queue_pairs_of_one_file_are_two_ends(void **state)
{
	struct joined j;

	start(state);
	at(0, TRACE_connect, A, B, 100, 500, 1024, 0);
	at(0, TRACE_connect, B, A, 500, 100, 1024, 0);
	at(1, TRACE_connect, 0x77, 0x78, 1, 2, 1024, 0);
	at(0, TRACE_post_send, A, 0, 0x33, IBV_WR_SEND, 64, IBV_SEND_SIGNALED);
	at(0, TRACE_pickup, A, 0, 100, 1, IBV_WR_SEND, 0);
	at(0, TRACE_build, A, B, 100, OP_SEND_ONLY, 64, 0);
	at(0, TRACE_send, B, 100, OP_SEND_ONLY, 64, 80, 0);
	at(0, TRACE_receive, B, 100, OP_SEND_ONLY, 64, 0, 0);
	at(0, TRACE_match, B, 0, 0x44, 100, 0, 0);
	join(&j, &records);
	assert_int_equal(j.second[0], 3);
	assert_int_equal(j.second[1], 0);
	assert_string_equal(conn_letters(&j, &j.conns[j.requests[0].conn]), "A -> D");
	for (uint32_t s = j.requests[0].first, n = 0; s != NO_STEP; s = j.steps[s].next, n++)
		assert_int_equal(join_end(&j, &j.requests[0], &records.all[j.steps[s].record]), n < 4 ? 0 : 3);
	join_free(&j);
}

static void any_records_at_all_do_no_harm(void **state)
{
	uint64_t seed = 12345;
	struct joined j;

	for (int round = 0; round < 3000; round++) {
		start(state);
		for (int i = 0; i < 200; i++) {
			uint64_t a[6];

			for (int k = 0; k < 6; k++) {
				seed = seed * 6364136223846793005u + 1442695040888963407u;
				a[k] = seed >> 60 == 0 ? seed : (seed >> 40) % 8; /* mostly small, so that some meet */
			}
			at((uint16_t)(a[0] % 3), (enum trace_point)((seed >> 20) % TRACE_POINTS), a[0], a[1], a[2],
			   a[3], a[4], a[5]);
		}
		join(&j, &records);
		for (uint32_t q = 0; q < j.request_count; q++)
			assert_true(steps_of(&j, &j.requests[q]) > 0);
		if (round % 100 == 0) {
			FILE *nowhere = fopen("/dev/null", "w");
			uint32_t *which, n = filter_requests(&j, &(struct filter){.qpn = -1, .wqe = -1}, &which);

			for (uint32_t q = 0; q < n; q++) {
				print_request(&j, &j.requests[which[q]], nowhere);
				print_ladder(&j, &j.requests[which[q]], nowhere);
			}
			print_html(&j, which, n, nowhere);
			print_summary(&j, which, n, nowhere);
			print_json(&j, which, n, true, true, nowhere);
			free(which);
			fclose(nowhere);
		}
		join_free(&j);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, start)
	const struct CMUnitTest tests[] = {
		TEST(a_send_is_followed_from_post_to_both_polls),
		TEST(one_ack_answers_all_before_it),
		TEST(a_read_is_answered_by_its_data),
		TEST(a_nak_answers_nothing),
		TEST(psns_wrap),
		TEST(one_end_alone_shows_its_half),
		TEST(polls_find_their_requests_among_equal_ids),
		TEST(a_number_that_is_used_again_is_another_queue_pair),
		TEST(both_ends_in_one_file),
		TEST(a_third_file_with_the_same_numbers_is_told_apart),
		TEST(the_table_has_medians_and_percentiles),
		TEST(an_arrow_ends_where_its_packet_arrived),
		TEST(queue_pairs_of_one_file_are_two_ends),
		TEST(any_records_at_all_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
