/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/timer.h"

#define TIMERS 500

static struct timers heap;
static struct timer timer[TIMERS];

static int start(void **state)
{
	timers_init(&heap);
	for (int i = 0; i < TIMERS; i++) {
		timer[i] = (struct timer){0};
		if (timers_join(&heap))
			return -1;
	}
	return 0;
}

static int stop(void **state)
{
	timers_fini(&heap);
	return 0;
}

static void an_empty_heap_never_fires(void **state)
{
	assert_true(timers_next(&heap) == NEVER);
	assert_null(timers_pop(&heap, NEVER - 1));
}

static void timers_fire_in_order_and_not_early(void **state)
{
	uint64_t last = 0, seed = 1;
	struct timer *t;

	for (int i = 0; i < TIMERS; i++) {
		seed = seed * 6364136223846793005u + 1;
		timer_set(&heap, &timer[i], 1000 + (seed >> 33) % 100000);
	}
	assert_null(timers_pop(&heap, 999));
	for (int i = 0; i < TIMERS; i++) {
		uint64_t next = timers_next(&heap);

		assert_null(timers_pop(&heap, next - 1));
		t = timers_pop(&heap, next);
		assert_non_null(t);
		assert_true(t->when == next && t->when >= last);
		last = t->when;
	}
	assert_true(timers_next(&heap) == NEVER);
}

static void only_an_earlier_time_moves_a_timer(void **state)
{
	assert_true(timer_set(&heap, &timer[0], 100));
	assert_false(timer_set(&heap, &timer[0], 200)); /* lazily: fires at 100, its owner sets it again */
	assert_true(timers_next(&heap) == 100);
	assert_false(timer_set(&heap, &timer[1], 150));
	assert_true(timer_set(&heap, &timer[1], 50));
	assert_true(timers_next(&heap) == 50);
	assert_ptr_equal(timers_pop(&heap, 1000), &timer[1]);
	assert_ptr_equal(timers_pop(&heap, 1000), &timer[0]);
	assert_null(timers_pop(&heap, 1000));
}

static void a_timer_that_left_does_not_fire(void **state)
{
	struct timer *t;
	int fired = 0;

	for (int i = 0; i < TIMERS; i++)
		timer_set(&heap, &timer[i], (uint64_t)(i * 7919 % TIMERS));
	for (int i = 0; i < TIMERS; i += 2)
		timers_leave(&heap, &timer[i]);
	timers_leave(&heap, &timer[0]); /* not queued any more: nothing happens to the others */
	while ((t = timers_pop(&heap, TIMERS))) {
		assert_int_equal((t - timer) % 2, 1);
		fired++;
	}
	assert_int_equal(fired, TIMERS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_empty_heap_never_fires, start, stop),
		cmocka_unit_test_setup_teardown(timers_fire_in_order_and_not_early, start, stop),
		cmocka_unit_test_setup_teardown(only_an_earlier_time_moves_a_timer, start, stop),
		cmocka_unit_test_setup_teardown(a_timer_that_left_does_not_fire, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
