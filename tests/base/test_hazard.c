/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hazard.h"

#define USERS	2
#define OBJECTS 4

static uint32_t rounds = 500;

/* An object that opens and closes. A thread that saw it open may write to it, and so may the one that closed it. */
struct object {
	_Atomic bool open;
	uint64_t user[USERS];
};

static struct object objects[OBJECTS];
static _Atomic bool over;

static bool enter(struct object *o)
{
	assert_true(hazard_take(o));
	if (atomic_load(&o->open))
		return true;
	hazard_drop(o);
	return false;
}

/* Holds up to all of them at once, and lets go in another order. */
static void *use(void *arg)
{
	uint32_t self = (uint32_t)(uintptr_t)arg;

	for (uint32_t n = self; !atomic_load(&over); n++) {
		bool in[OBJECTS];

		for (uint32_t i = 0; i < OBJECTS; i++)
			in[i] = enter(&objects[(i + n) % OBJECTS]);
		for (uint32_t i = 0; i < OBJECTS; i++) {
			struct object *o = &objects[(n + (n & 1 ? i : OBJECTS - 1 - i)) % OBJECTS];

			if (!in[n & 1 ? i : OBJECTS - 1 - i])
				continue;
			o->user[self]++;
			hazard_drop(o);
		}
	}
	return NULL;
}

/* Plain accesses on both sides: ThreadSanitizer tells of any that are not one after the other. */
static void who_has_closed_an_object_is_alone_with_it(void **state)
{
	pthread_t thread[USERS];

	for (uint32_t i = 0; i < USERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, use, (void *)(uintptr_t)i), 0);
	for (uint32_t n = 0; n < rounds; n++) {
		struct object *o = &objects[n % OBJECTS];

		atomic_store(&o->open, true);
		if (n % 8 == 0)
			sched_yield();
		atomic_store(&o->open, false);
		hazard_await(o);
		for (uint32_t i = 0; i < USERS; i++)
			o->user[i] = ~0ull;
		for (uint32_t i = 0; i < 10; i++)
			for (uint32_t u = 0; u < USERS; u++)
				assert_true(*(volatile uint64_t *)&o->user[u] == ~0ull);
	}
	atomic_store(&over, true);
	for (uint32_t i = 0; i < USERS; i++)
		pthread_join(thread[i], NULL);
}

static void what_is_dropped_is_not_held_whatever_the_order(void **state)
{
	int a = 0, b = 0, c = 0;

	for (const void *o = &a; o; o = o == &a ? &b : o == &b ? &c : NULL)
		assert_true(hazard_take(o));
	hazard_drop(&b);
	assert_true(hazard_take(&b));
	hazard_swap(&a, &c);
	for (int i = 0; i < 2; i++)
		hazard_drop(&c);
	hazard_drop(&b);
	assert_true(!hazards_own->first && !hazards_own->count);
	hazard_await(&a);
}

static void *closes(void *object)
{
	hazard_await(object);
	return NULL;
}

static void an_object_taken_twice_is_held_until_dropped_twice(void **state)
{
	pthread_t thread;
	void *end;
	int a = 0;

	hazard_take(&a);
	hazard_take(&a);
	assert_int_equal(pthread_create(&thread, NULL, closes, &a), 0);
	hazard_drop(&a);
	for (int i = 0; i < 100; i++) {
		sched_yield();
		assert_int_equal(pthread_tryjoin_np(thread, &end), EBUSY);
	}
	hazard_drop(&a);
	pthread_join(thread, NULL);
}

static void *takes_and_ends(void *object)
{
	hazard_take(object);
	hazard_drop(object);
	return hazards_own;
}

static void the_lists_of_threads_that_have_ended_are_used_again(void **state)
{
	pthread_t thread;
	void *first, *list;
	int a = 0;

	assert_int_equal(pthread_create(&thread, NULL, takes_and_ends, &a), 0);
	pthread_join(thread, &first);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(pthread_create(&thread, NULL, takes_and_ends, &a), 0);
		pthread_join(thread, &list);
		assert_ptr_equal(list, first);
	}
	hazard_await(&a);
}

static void *takes_and_is_cancelled(void *object)
{
	hazard_take(object);
	pthread_cancel(pthread_self());
	pthread_testcancel();
	return NULL;
}

static void a_thread_that_has_ended_holds_nothing(void **state)
{
	pthread_t thread;
	int a = 0;

	assert_int_equal(pthread_create(&thread, NULL, takes_and_is_cancelled, &a), 0);
	pthread_join(thread, NULL);
	hazard_await(&a);
}

static int forked_object;
static int tell[2], ask[2];

static void *holds_at_a_fork(void *arg)
{
	char c;

	hazard_take(&forked_object);
	assert_int_equal(write(tell[1], "", 1), 1);
	assert_int_equal(read(ask[0], &c, 1), 1);
	hazard_drop(&forked_object);
	return NULL;
}

static void a_child_waits_for_no_thread_that_it_has_not(void **state)
{
	pthread_t thread;
	int status;
	char c;
	pid_t child;

	assert_int_equal(pipe(tell) || pipe(ask), 0);
	assert_int_equal(pthread_create(&thread, NULL, holds_at_a_fork, NULL), 0);
	assert_int_equal(read(tell[0], &c, 1), 1);
	child = fork();
	if (child == 0) {
		hazard_await(&forked_object);
		_exit(hazard_take(&forked_object) ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(write(ask[1], "", 1), 1);
	pthread_join(thread, NULL);
	hazard_await(&forked_object);
}

/* From here on who closes makes the order, where the kernel can. */
static int by_membarrier(void **state)
{
	barrier_prepare();
	atomic_store(&over, false);
	return 0;
}

int main(void)
{
#define BOTH(TEST)                                                \
	TEST(what_is_dropped_is_not_held_whatever_the_order)      \
	TEST(an_object_taken_twice_is_held_until_dropped_twice)   \
	TEST(the_lists_of_threads_that_have_ended_are_used_again) \
	TEST(a_thread_that_has_ended_holds_nothing)               \
	TEST(a_child_waits_for_no_thread_that_it_has_not)         \
	TEST(who_has_closed_an_object_is_alone_with_it)
#define FENCED(name)	    cmocka_unit_test(name),
#define BY_MEMBARRIER(name) {#name "_by_membarrier", name, by_membarrier, NULL, NULL},
	const struct CMUnitTest tests[] = {BOTH(FENCED) BOTH(BY_MEMBARRIER)};

	if (getenv("UROCE_QUICK") && *getenv("UROCE_QUICK"))
		rounds /= 10;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
