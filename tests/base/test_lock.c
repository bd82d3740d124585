/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

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
	while (!(atomic_load(&held.word) & LOCK_WANTED)) /* somebody sleeps */
		sched_yield();
	assert_false(has_it);
	lock_drop(&held);
	pthread_join(thread, NULL);
	assert_true(has_it);
}

static void *keep_it(void *arg)
{
	lock_take(&held);
	lock_hand_over(&held); /* to main, which drops it */
	return NULL;
}

static void NO_LOCK_ANALYSIS a_child_has_what_another_thread_of_its_parent_held(void **state)
{
	pthread_t thread;
	int status;
	pid_t child;

	assert_int_equal(pthread_create(&thread, NULL, keep_it, NULL), 0);
	pthread_join(thread, NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		lock_in_child();
		alarm(60);
		assert_false(lock_try(&held)); /* for its state may be half changed */
		lock_take(&held);
		lock_drop(&held);
		lock_take(&held);
		_exit(lock_try(&held));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_false(lock_try(&held));
	lock_drop(&held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_count_is_lost_between_threads),
		cmocka_unit_test(a_held_lock_is_not_taken_twice),
		cmocka_unit_test(a_sleeper_is_woken),
		cmocka_unit_test(a_child_has_what_another_thread_of_its_parent_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
