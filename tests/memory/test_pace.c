/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/base.h"
#include "memory/pace.h"

#define BYTES 20000
#define SLOW  (BYTES / 2)
#define QUICK (BYTES / 10)

static uint8_t from[BYTES + 64], to[BYTES + 64], expected[BYTES + 64];

/* In pieces of these sizes, the rest last. */
static void copies(struct pace p, size_t from_at, size_t to_at, size_t length, size_t first, size_t second)
{
	struct iovec iov[3] = {{from + from_at, first},
			       {from + from_at + first, second},
			       {from + from_at + first + second, length - first - second}};

	memset(to, 0xee, sizeof(to));
	memset(expected, 0xee, sizeof(expected));
	memcpy(expected + to_at, from + from_at, length);
	pace_copy(&p, (char *)to + to_at, iov, ARRAY_SIZE(iov), length);
	assert_memory_equal(to, expected, sizeof(to));
}

static void every_byte_arrives_and_no_other_whichever_the_way(void **state)
{
	static const size_t lengths[] = {0, 1, 63, 2047, 2048, 2049, 2112, 4096, 4097, BYTES};
	static const struct pace ways[] = {{.left = 9}, {.left = 0}, {.past = true, .left = 9}};

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t way = 0; way < ARRAY_SIZE(ways); way++)
		for (size_t l = 0; l < ARRAY_SIZE(lengths); l++)
			for (size_t at = 0; at < 64; at += at < 3 ? 1 : 15) {
				copies(ways[way], at, 0, lengths[l], 0, 0);
				copies(ways[way], 0, at, lengths[l], 0, 0);
				copies(ways[way], at, 63 - at, lengths[l], lengths[l] / 3, lengths[l] / 2);
			}
}

static void one_slow_copy_may_have_been_interrupted(void **state)
{
	struct pace p = {0};

	pace_judge(&p, BYTES, SLOW);
	pace_judge(&p, BYTES, SLOW);
	assert_false(p.past);
	assert_int_equal(p.left, 0); /* to be sure soon */
	pace_judge(&p, BYTES, QUICK);
	pace_judge(&p, BYTES, SLOW);
	pace_judge(&p, BYTES, SLOW);
	assert_false(p.past);
	pace_judge(&p, BYTES, SLOW);
	assert_true(p.past);
}

static void it_goes_through_the_caches_again_when_that_is_quick_again(void **state)
{
	struct pace p = {0};

	for (int i = 0; i < 1000; i++)
		pace_judge(&p, BYTES, SLOW);
	assert_true(p.past);
	assert_true(p.left > 100);
	pace_judge(&p, BYTES, QUICK);
	assert_false(p.past);
	assert_in_range(p.left, 1, 100);
}

static void short_copies_are_not_looked_at(void **state)
{
	struct pace p = {.left = 5}, before = p;
	struct iovec iov = {from, 1000};

	pace_copy(&p, (char *)to, &iov, 1, iov.iov_len);
	assert_memory_equal(&p, &before, sizeof(p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_arrives_and_no_other_whichever_the_way),
		cmocka_unit_test(one_slow_copy_may_have_been_interrupted),
		cmocka_unit_test(it_goes_through_the_caches_again_when_that_is_quick_again),
		cmocka_unit_test(short_copies_are_not_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
