/* SPDX-License-Identifier: BSD-2-Clause */
/* fork() while other threads are in the middle of something: the child finds everything whole, and what is the parent's
 * stays the parent's. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/netns.h"
#include "verbs/fixture.h"
#include "verbs/fork.h"

static void reap(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static pthread_barrier_t taken;

static void *hold(void *arg)
{
	lock_take(arg);
	pthread_barrier_wait(&taken);
	until_main_sleeps(); /* in fork(); or behind one that did not wait */
	lock_drop(arg);
	pthread_barrier_wait(&taken);
	return NULL;
}

static void nobody_holds_a_lock_in_the_child(void **state)
{
	struct lock *const locks[] = {&monitor_lock, &devices_lock, &pds_lock, &dms_lock, &remote_lock};

	pthread_barrier_init(&taken, NULL, 2);
	for (size_t i = 0; i < ARRAY_SIZE(locks); i++) {
		pthread_t thread;
		pid_t child;

		assert_int_equal(pthread_create(&thread, NULL, hold, locks[i]), 0);
		pthread_detach(thread); /* not joined: to ThreadSanitizer, the child would leak it */
		pthread_barrier_wait(&taken);
		child = fork();
		if (!child)
			_exit(!lock_try(locks[i]));
		pthread_barrier_wait(&taken);
		reap(child);
	}
}

#ifndef __SANITIZE_THREAD__ /* which ends a child that has threads, if its parent had */
static struct ibv_context *open_lo(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	ibv_free_device_list(list);
	return context;
}

/* Exits with 0 if the address that comes is news to it. */
static void live(void)
{
	struct ibv_context *context = open_lo();
	struct pollfd fd = {.fd = context ? context->async_fd : -1, .events = POLLIN};
	struct ibv_async_event e;

	if (!context || system("ip addr add 10.1.1.1/32 dev lo"))
		_exit(1);
	if (poll(&fd, 1, -1) != 1 || ibv_get_async_event(context, &e))
		_exit(2);
	ibv_ack_async_event(&e);
	_exit(e.event_type != IBV_EVENT_GID_CHANGE || ibv_close_device(context));
}

static void each_has_its_own_news(void **state)
{
	struct ibv_context *context = open_lo();
	struct ibv_async_event e;
	pid_t child;

	assert_non_null(context);
	child = fork();
	if (!child)
		live();
	reap(child);
	assert_int_equal(ibv_get_async_event(context, &e), 0);
	assert_int_equal(e.event_type, IBV_EVENT_GID_CHANGE);
	ibv_ack_async_event(&e);
	assert_int_equal(ibv_close_device(context), 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_holds_a_lock_in_the_child),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test(each_has_its_own_news),
#endif
	};

	netns_enter();
	setenv("UROCE_DEVICES", "lo", 1);
	if (ibv_fork_init()) /* as programs do that fork; and so that its file is linked in */
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
