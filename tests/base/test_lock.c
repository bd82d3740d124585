/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"

#define THREADS 4

static struct lock guard = LOCK_RANKED(QP);
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
	struct lock l = LOCK_RANKED(QP);

	assert_true(lock_try(&l));
	assert_false(lock_try(&l));
	lock_drop(&l);
	assert_true(lock_try(&l));
	lock_drop(&l);
}

static struct lock held = LOCK_RANKED(CQ);
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
	(lock_drop)(&held); /* for the other thread */
}

#ifdef UROCE_LOCK_RANKS
static struct lock upper = LOCK_RANKED(QP), upper_too = LOCK_RANKED(QP), lower = LOCK_RANKED(CQ), unranked;

NO_LOCK_ANALYSIS static void takes_upper_with_lower(void)
{
	lock_take(&lower);
	lock_take(&upper);
}

NO_LOCK_ANALYSIS static void takes_two_of_one_rank(void)
{
	lock_take(&upper);
	lock_take(&upper_too);
}

NO_LOCK_ANALYSIS static void takes_upper_with_lower_tried(void)
{
	if (lock_try(&lower))
		lock_take(&upper);
}

NO_LOCK_ANALYSIS static void takes_an_unranked(void)
{
	lock_take(&unranked);
}

NO_LOCK_ANALYSIS static void drops_what_it_lacks(void)
{
	lock_drop(&upper);
}

NO_LOCK_ANALYSIS static void asserts_what_it_lacks(void)
{
	lock_assert_held(&upper);
}

/* What `wrong` says, in a child that it has to end. */
static void says_and_ends(void (*wrong)(void), const char *says)
{
	char text[512] = "";
	size_t n = 0;
	ssize_t got;
	int fd[2], status;
	pid_t child;

	assert_int_equal(pipe(fd), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		lock_in_child();
		signal(SIGABRT, SIG_DFL); /* cmocka's and the sanitizer's handlers say more */
		setrlimit(RLIMIT_CORE, &(struct rlimit){0});
		dup2(fd[1], STDERR_FILENO);
		wrong();
		_exit(0);
	}
	close(fd[1]);
	while (n < sizeof(text) - 1 && (got = read(fd[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	close(fd[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	if (!strstr(text, says))
		fail_msg("it says \"%s\", not \"%s\"", text, says);
}

static void locks_in_the_wrong_order_end_the_process(void **state)
{
	says_and_ends(takes_upper_with_lower, "wrong order: QP (qp->lock");
	says_and_ends(takes_upper_with_lower, "while CQ (cq->lock");
	says_and_ends(takes_upper_with_lower, "tests/base/test_lock.c:");
	says_and_ends(takes_two_of_one_rank, "while QP (qp->lock");
	says_and_ends(takes_upper_with_lower_tried, "while CQ (cq->lock");
	says_and_ends(takes_an_unranked, "has no rank");
	says_and_ends(drops_what_it_lacks, "drops a lock that it does not hold: QP");
	says_and_ends(asserts_what_it_lacks, "not held by this thread: QP");
}

NO_LOCK_ANALYSIS static void locks_in_order_do_not(void **state)
{
	for (int i = 0; i < 100; i++) { /* the list has room again */
		lock_take(&upper);
		lock_take(&lower);
		lock_drop(&upper);
		assert_true(lock_try(&upper)); /* it would not have waited */
		lock_assert_held(&lower);
		lock_drop_fully(&lower);
		lock_drop(&upper);
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_count_is_lost_between_threads),
		cmocka_unit_test(a_held_lock_is_not_taken_twice),
		cmocka_unit_test(a_sleeper_is_woken),
		cmocka_unit_test(a_child_has_what_another_thread_of_its_parent_held),
#ifdef UROCE_LOCK_RANKS
		cmocka_unit_test(locks_in_the_wrong_order_end_the_process),
		cmocka_unit_test(locks_in_order_do_not),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
