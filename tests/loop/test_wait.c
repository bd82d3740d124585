// SPDX-License-Identifier: BSD-2-Clause
// Threads that wait and threads that poll: who sleeps, who is woken, who gives way. Each test runs by both links:
// pair.h.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/yield.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "port/gsi.h"
#include "port/local_link.h"
#include "port/ports.h"
#include "port/receive.h"
#include "port/run.h"
#include "progress/life.h"
#include "progress/poll.h"
#include "progress/wait.h"
#include "loop/pair.h"

static void *wait_for(void *fd)
{
	assert_int_equal(loop_wait(*(int *)fd), 0);
	return NULL;
}

static void await_sleeper(void)
{
	struct helper *h = &atomic_load(&loop_current)->helper;

	for (uint32_t asleep = 0; !asleep; sched_yield()) {
		lock_take(&h->renew_lock);
		asleep = h->sleepers;
		lock_drop(&h->renew_lock);
	}
}

/* It receives in place of the helper: so it must not sleep through what comes to an address that is new. */
static void a_sleeper_learns_of_new_addresses(void **state)
{
	struct hca *hca = loop_get(&pair_ops);
	int fd = eventfd(0, EFD_CLOEXEC);
	pthread_t thread;
	struct pair p;
	uint64_t count = 1;

	assert_int_equal(pthread_create(&thread, NULL, wait_for, &fd), 0);
	await_sleeper();
	for (int i = 0; i < 2; i++) {
		pair_open(&p);
		await_sleeper();
		cq_request(&p.cq[1], false);
		pair_post_receive(&p, 1);
		pair_post_send(&p, 0, "wake up");
		assert_int_equal(read(pair_event, &count, sizeof(count)), sizeof(count));
		pair_close(&p);
	}
	assert_int_equal(write(fd, &count, sizeof(count)), sizeof(count));
	pthread_join(thread, NULL);
	close(fd);
	loop_put(hca);
}

static void *wait_without_a_context(void *fd)
{
	assert_int_equal(loop_wait_alone(*(int *)fd), 0);
	return NULL;
}

/* rdma_get_cm_event() waits with a channel only: the last context may be closed meanwhile. */
static void a_thread_that_waits_outlives_the_loop(void **state)
{
	struct hca *hca = loop_get(&pair_ops);
	int fd = eventfd(0, EFD_CLOEXEC);
	pthread_t thread;
	struct pair p;
	uint64_t count = 1;

	assert_int_equal(pthread_create(&thread, NULL, wait_without_a_context, &fd), 0);
	await_sleeper();
	loop_put(hca);
	pair_open(&p);
	pair_round_trip(&p);
	pair_close(&p);
	assert_int_equal(write(fd, &count, sizeof(count)), sizeof(count));
	pthread_join(thread, NULL);
	close(fd);
}

static void waiting_heeds_nonblocking(void **state)
{
	struct pair p;

	pair_open(&p);
	assert_int_equal(fcntl(pair_event, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(loop_wait(pair_event), -EAGAIN);
	pair_close(&p);
}

/* What follows `key` at the beginning of a line. */
static unsigned long number_in(const char *path, const char *key)
{
	FILE *f = fopen(path, "r");
	unsigned long n = 0;
	char line[256];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			n = strtoul(line + strlen(key), NULL, 10);
	fclose(f);
	return n;
}

static bool is_helper(const char *task)
{
	char path[300], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(name, sizeof(name), f))
		name[0] = 0;
	fclose(f);
	return !strcmp(name, "uroce\n");
}

/* Among the threads of this process: sanitizers have some too, which are not ours. False: it has not come to run yet.
 */
static bool find_helper(char *task, size_t size)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;
	int helpers = 0;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		if (!is_helper(e->d_name))
			continue;
		snprintf(task, size, "/proc/self/task/%s", e->d_name);
		helpers++;
	}
	closedir(dir);
	assert_in_range(helpers, 0, 1);
	return helpers;
}

/* How often the thread has slept. */
static unsigned long sleeps_of(const char *task)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/status", task);
	return number_in(path, "voluntary_ctxt_switches:");
}

/* It sleeps until something comes: in epoll_pwait2() without a time, or in epoll_wait() with -1; and its timer is not
 * set. */
static bool is_at_rest(const char *task)
{
	struct helper *h = &atomic_load(&loop_current)->helper;
	unsigned long before = sleeps_of(task), fd = 0, time = 0;
	char path[300];
	FILE *f;
	int got;

	snprintf(path, sizeof(path), "%s/syscall", task);
	f = fopen(path, "r");
	assert_non_null(f);
	got = fscanf(f, "%*d %lx %*x %*x %lx", &fd, &time); /* or "running" */
	fclose(f);
	return got == 2 && (int)fd == h->epoll && (!time || (int)time == -1) && atomic_load(&h->timer_at) == NEVER &&
	       sleeps_of(task) == before;
}

static _Atomic int handled;

static void count_signal(int number)
{
	atomic_fetch_add(&handled, 1);
}

/* The signal comes while the loop polls, before it sleeps. */
static bool is_signalled(void *arg)
{
	int *looks = arg;

	if (++*looks == 2)
		raise(SIGUSR1);
	return false;
}

static void needs_nothing(void *arg)
{
}

static void a_signal_ends_a_wait_that_has_not_come_to_sleep(void **state)
{
	struct sigaction on = {.sa_handler = count_signal}, off;
	int looks = 0, wake = eventfd(0, EFD_NONBLOCK);
	struct loop_wait w = {.done = is_signalled, .arm = needs_nothing, .arg = &looks, .wake = wake};
	struct pair p;
	sigset_t mask;

	pair_open(&p);
	atomic_store(&handled, 0);
	assert_int_equal(sigaction(SIGUSR1, &on, &off), 0);
	w.until = clock_now() + 10 * SEC;
	assert_int_equal(loop_wait_for(&w), -EINTR);
	assert_int_equal(atomic_load(&handled), 1);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	assert_int_equal(sigismember(&mask, SIGUSR1), 0);
	/* one that nobody heeds ends nothing */
	assert_int_equal(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = SIG_IGN}, NULL), 0);
	looks = 0;
	w.until = clock_now() + 30 * MSEC;
	assert_int_equal(loop_wait_for(&w), 0);
	assert_int_equal(sigaction(SIGUSR1, &off, NULL), 0);
	pair_close(&p);
	close(wake);
}

/* What a yield takes, as if somebody ran meanwhile who computes; or as if so many others polled and gave way. */
static _Thread_local uint64_t slice;
static _Thread_local unsigned int yields, others;

void processor_yield(void)
{
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_relaxed);
	uint64_t end = clock_now() + slice;

	while (slice && clock_now() < end)
		;
	yields++;
	if (others)
		atomic_fetch_add_explicit(&l->offers, others, memory_order_relaxed);
	syscall(SYS_sched_yield);
}

static void polling_leaves_time_for_work_beside_programs_that_compute(void **state)
{
	uint64_t begin, all, took;
	struct pair p;

	pair_open(&p);
	slice = 2 * MSEC;
	yields = 0;
	begin = clock_now();
	while (yields < 30)
		loop_progress();
	all = clock_now() - begin;
	took = 30 * slice;
	slice = 0;
	assert_true(all - took > took / 10);
	pair_close(&p);
}

/* Returns how often it has polled. */
static unsigned long poll_beside(unsigned int others_poll, uint64_t took)
{
	unsigned long polls = 0;

	slice = took;
	others = others_poll;
	for (yields = 0; yields < 30; polls++)
		loop_progress();
	slice = others = 0;
	return polls;
}

/* A poll that finds nothing yields the processor after a time. That time must not grow with the number of processes
 * that poll: the one that all others wait for is among them. */
static void many_who_poll_do_not_keep_the_processor_from_each_other(void **state)
{
	unsigned long alone;
	struct pair p;

	pair_open(&p);
	poll_beside(0, 0);
	alone = poll_beside(0, 0);
	assert_in_range(poll_beside(1000, 40 * MSEC), 0, 16 * alone);
	pair_close(&p);
}

static void an_idle_connection_wakes_nobody(void **state)
{
	unsigned long before = 0, after = 0;
	char task[280];
	struct pair p;

	pair_open(&p);
	for (int i = 0; i < 100; i++)
		pair_round_trip(&p);
	/* on a loaded machine something may come late and wake it once; not again and again */
	for (int i = 0; i < 3; i++) {
		while (!find_helper(task, sizeof(task)) || !is_at_rest(task))
			sched_yield();
		before = sleeps_of(task);
		sleep(2); /* time is what this measures */
		after = sleeps_of(task);
		if (after == before)
			break;
		printf("# woken: %lu sleeps, then %lu\n", before, after);
	}
	assert_int_equal(after, before);
	pair_close(&p);
}
int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sleeper_learns_of_new_addresses),
		cmocka_unit_test(a_thread_that_waits_outlives_the_loop),
		cmocka_unit_test(waiting_heeds_nonblocking),
		cmocka_unit_test(a_signal_ends_a_wait_that_has_not_come_to_sleep),
		cmocka_unit_test(polling_leaves_time_for_work_beside_programs_that_compute),
		cmocka_unit_test(many_who_poll_do_not_keep_the_processor_from_each_other),
		cmocka_unit_test(an_idle_connection_wakes_nobody),
	};

	return pair_run_tests(tests, ARRAY_SIZE(tests));
}
