/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams through a bottleneck: loss that is no congestion costs little between two uroce, and who shares the way gets
 * a share. In virtual time, so the figures are the same everywhere; `make bench-loss` prints them all. */
#include "path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"

/* Under a sanitizer each packet costs twenty times as much. */
static bool is_quick(void)
{
	const char *quick = getenv("UROCE_QUICK");

	return quick && *quick;
}

static struct path_case ask(uint64_t round_trip, double loss)
{
	struct path_case c = path_usual(round_trip, loss);

	c.depth = 512;
	c.duration = max_of(40 * round_trip, 100 * MSEC);
	return c;
}

static void loss_costs_what_is_lost(void **state)
{
	static const uint64_t round_trips[] = {10 * USEC, 100 * USEC, MSEC, 10 * MSEC};
	static const struct {
		double loss, least;
	} rows[] = {{0, 0.8}, {0.001, 0.8}, {0.01, 0.7}, {0.05, 0.45}};

	for (size_t i = is_quick() ? 1 : 0; i < (is_quick() ? 2 : ARRAY_SIZE(round_trips)); i++)
		for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
			struct path_case c = ask(round_trips[i], rows[k].loss);
			struct path_result result = path_run(&c);

			if (result.failed || result.total < rows[k].least)
				fail_msg("round trip %llu us, loss %g: goodput %.3f, not %.3f",
					 (unsigned long long)(round_trips[i] / USEC), rows[k].loss, result.total,
					 rows[k].least);
		}
}

static void reads_lose_what_is_lost(void **state)
{
	static const struct {
		double loss, least;
	} rows[] = {{0, 0.8}, {0.001, 0.8}, {0.01, 0.7}, {0.05, 0.45}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct path_case c = ask(100 * USEC, rows[i].loss);
		struct path_result result;

		c.reads = true;
		result = path_run(&c);
		if (result.failed || result.total < rows[i].least)
			fail_msg("READs, loss %g: goodput %.3f, not %.3f", rows[i].loss, result.total, rows[i].least);
	}
}

static void other_peers_lose_more(void **state)
{
	for (uint32_t reads = 0; reads <= 1; reads++) {
		struct path_case c = ask(100 * USEC, 0.01);
		struct path_result with, without;

		c.reads = reads;
		with = path_run(&c);
		c.is_uroce = false;
		without = path_run(&c);
		assert_false(without.failed);
		assert_true(without.total > 0.1);
		assert_true(without.total < with.total);
		assert_true(without.resent > 2 * with.resent);
	}
}

static void overtaking_is_no_loss(void **state)
{
	struct path_case c = ask(100 * USEC, 0);
	struct path_result result;

	c.jitter = 2 * USEC; /* less than three packets take */
	c.depth = 2;	     /* the queue has room for all of it */
	result = path_run(&c);
	assert_true(result.resent < 0.001);
	assert_true(result.total > 0.5);
}

/* They are taken for lost and sent again, but nothing else is. */
static void overtaking_by_many_costs_little(void **state)
{
	static const uint64_t round_trips[] = {100 * USEC, MSEC, 10 * MSEC};

	for (size_t i = 0; i < (is_quick() ? 1 : ARRAY_SIZE(round_trips)); i++) {
		struct path_case c = ask(round_trips[i], 0);
		struct path_result result;

		c.late = 0.01;
		result = path_run(&c);
		if (result.failed || result.total < 0.7)
			fail_msg("round trip %llu us: goodput %.3f, %.4f sent again",
				 (unsigned long long)(round_trips[i] / USEC), result.total, result.resent);
	}
}

/* A queue of a tenth of a round trip never shows in the round trip: the part that is lost does. */
static void a_short_queue_is_not_flooded(void **state)
{
	struct path_case c = ask(10 * MSEC, 0);
	struct path_result result;

	c.queue = 1250000;
	c.duration = SEC;
	result = path_run(&c);
	assert_true(result.total > 0.4);
	assert_true(result.resent < 0.05);
}

static void streams_share_a_bottleneck(void **state)
{
	static const struct {
		uint64_t round_trip;
		uint32_t streams, tcps;
		double least;
	} rows[] = {
		{100 * USEC, 8, 0, 0.9}, {MSEC, 8, 0, 0.9}, {10 * MSEC, 8, 0, 0.9},
		{100 * USEC, 1, 1, 0.6}, {MSEC, 1, 1, 0.9}, {10 * MSEC, 1, 1, 0.9},
	};

	for (size_t i = 0; i < (is_quick() ? 1 : ARRAY_SIZE(rows)); i++) {
		struct path_case c = ask(rows[i].round_trip, 0);
		struct path_result result;
		double fairness;

		c.streams = rows[i].streams;
		c.tcps = rows[i].tcps;
		c.mtu = 1024;
		c.duration = max_of(240 * c.round_trip, 1200 * MSEC);
		result = path_run(&c);
		fairness = path_fairness(result.goodput, c.streams + c.tcps);
		if (fairness < rows[i].least || result.total < 0.85)
			fail_msg("round trip %llu us, %u streams and %u of TCP: fairness %.3f, goodput %.3f",
				 (unsigned long long)(c.round_trip / USEC), c.streams, c.tcps, fairness, result.total);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_costs_what_is_lost),	   cmocka_unit_test(reads_lose_what_is_lost),
		cmocka_unit_test(other_peers_lose_more),	   cmocka_unit_test(overtaking_is_no_loss),
		cmocka_unit_test(overtaking_by_many_costs_little), cmocka_unit_test(a_short_queue_is_not_flooded),
		cmocka_unit_test(streams_share_a_bottleneck),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
