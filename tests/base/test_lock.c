/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/lock.h"

#define THREADS 4

static struct lock guard;
static uint64_t count; /* guarded by guard */
static int rounds = 200000;

static void *count_up(void *arg)
{
	for (int i = 0; i < rounds; i++) {
		lock_take(&guard);
		count++;
		lock_drop(&guard);
	}
	return NULL;
}

static void no_count_is_lost_between_threads(void **state)
{
	pthread_t thread[THREADS];

	if (getenv("UROCE_QUICK") && *getenv("UROCE_QUICK"))
		rounds /= 10;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count_up, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_true(count == (uint64_t)THREADS * rounds);
	assert_int_equal(atomic_load(&guard.word), 0);
}

static void NO_LOCK_ANALYSIS a_held_lock_is_not_taken_twice(void **state)
{
	struct lock l = {0};

	assert_true(lock_try(&l));
	assert_false(lock_try(&l));
	lock_drop(&l);
	assert_true(lock_try(&l));
	lock_drop(&l);
}

static struct lock held;
static _Atomic bool has_it;

static void *want_it(void *arg)
{
	lock_take(&held);
	has_it = true;
	lock_drop(&held);
	return NULL;
}

static void NO_LOCK_ANALYSIS a_sleeper_is_woken(void **state)
{
	pthread_t thread;

	lock_take(&held);
	assert_int_equal(pthread_create(&thread, NULL, want_it, NULL), 0);
	while (atomic_load(&held.word) != 2) /* 2: somebody sleeps */
		sched_yield();
	assert_false(has_it);
	lock_drop(&held);
	pthread_join(thread, NULL);
	assert_true(has_it);
}

/* ---- reservations ---- */

#define MANY 4000000 /* takes in succession after which any lock is reserved */

static struct lock own;
static uint64_t owned; /* guarded by own */
static _Atomic bool over;

/* As often as it takes; 0 where the kernel has no barriers, so that nothing is ever reserved. */
static NO_LOCK_ANALYSIS int take_until_reserved(struct lock *l)
{
	for (int i = 1; i <= MANY; i++) {
		lock_take(l);
		lock_drop(l);
		if (lock_is_reserved(l))
			return i;
	}
	return 0;
}

static void *take_once(void *arg)
{
	lock_take(&own);
	owned++;
	lock_drop(&own);
	return NULL;
}

static NO_LOCK_ANALYSIS void *try_once(void *arg)
{
	bool *got = arg;

	*got = lock_try(&own);
	if (*got)
		lock_drop(&own);
	return NULL;
}

static void run(void *(*function)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, function, arg), 0);
	pthread_join(thread, NULL);
}

static void NO_LOCK_ANALYSIS a_lock_is_reserved_until_another_thread_comes(void **state)
{
	bool got;
	int takes;

	own = (struct lock){0};
	takes = take_until_reserved(&own);
	if (!barrier_has_threads()) {
		assert_int_equal(takes, 0);
		return;
	}
	assert_true(takes > 1);
	lock_take(&own);
	assert_int_equal(atomic_load(&own.word), 0); /* what the reservation saves */
	assert_false(lock_try(&own));
	run(try_once, &got);
	assert_false(got);
	assert_true(lock_is_reserved(&own)); /* nobody else has got it */
	lock_drop(&own);
	run(take_once, NULL);
	assert_false(lock_is_reserved(&own));
	assert_true(take_until_reserved(&own) > takes); /* more rarely each time */
	run(try_once, &got);
	assert_true(got);
	assert_false(lock_is_reserved(&own));
}

static void *reserve_for_others(void *arg)
{
	for (int i = 0; i < 100000; i++) {
		lock_take(&own);
		lock_drop(&own);
	}
	assert_false(lock_is_reserved(&own));
	return NULL;
}

static void *as_guest(void *arg)
{
	lock_as_guest();
	return reserve_for_others(arg);
}

static void a_lock_has_one_owner_in_its_life_who_is_no_guest(void **state)
{
	own = (struct lock){0};
	run(as_guest, NULL);
	take_until_reserved(&own);
	run(reserve_for_others, NULL);
}

static NO_LOCK_ANALYSIS void *disturb(void *arg)
{
	_Atomic uint64_t *count = arg;

	while (!atomic_load(&over)) {
		bool has = *count % 2;

		if (has)
			lock_take(&own);
		else
			has = lock_try(&own);
		if (has) {
			owned++;
			lock_drop(&own);
			++*count;
		}
		sched_yield(); /* so that it is reserved again */
	}
	return NULL;
}

/* The owner earns its reservation over and over, and two others end it, by force or if they may. */
static NO_LOCK_ANALYSIS void no_count_is_lost_when_reservations_end(void **state)
{
	static _Atomic uint64_t count[2];
	uint64_t mine = 0, enough = rounds / 1000;
	pthread_t thread[2];

	own = (struct lock){0};
	owned = 0;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, disturb, &count[i]), 0);
	while (count[0] < enough || count[1] < enough) {
		lock_take_word(&own);
		own.lost = 0; /* as if it was the first */
		lock_drop(&own);
		for (int n = 0; n < 1000; n++, mine++) {
			lock_take(&own);
			owned++;
			lock_drop(&own);
		}
	}
	over = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_true(owned == mine + count[0] + count[1]);
}

int main(void)
{
	barrier_start();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_count_is_lost_between_threads),
		cmocka_unit_test(a_held_lock_is_not_taken_twice),
		cmocka_unit_test(a_sleeper_is_woken),
		cmocka_unit_test(a_lock_is_reserved_until_another_thread_comes),
		cmocka_unit_test(a_lock_has_one_owner_in_its_life_who_is_no_guest),
		cmocka_unit_test(no_count_is_lost_when_reservations_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
