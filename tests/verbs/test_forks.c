/* SPDX-License-Identifier: BSD-2-Clause */
/* fork() while other threads are in the middle of something: the child finds everything whole, and what is the parent's
 * stays the parent's. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/devices.h"
#include "device/link_state.h"
#include "base/fork.h"
#include "loop/netns.h"
#include "verbs/fixture.h"
#include "verbs/dm.h"
#include "verbs/pd.h"
#include "verbs/remote_qp.h"

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

/* Around the handlers of each part: what was called, in memory that the child shares. */
static const struct fork_handlers *handlers[FORK_PARTS];
static struct calls {
	int before, in_parent, in_child; /* so many calls so far: 0 to FORK_PARTS */
	int before_at[FORK_PARTS], in_parent_at[FORK_PARTS], in_child_at[FORK_PARTS]; /* from 1 on */
} * calls;

#define CALL(part, when)                                \
	do {                                            \
		calls->when##_at[part] = ++calls->when; \
		if (handlers[part]->when)               \
			handlers[part]->when();         \
	} while (0)
#define FORK_PART(name, what)                 \
	static void before_##name(void)       \
	{                                     \
		CALL(FORK_##name, before);    \
	}                                     \
	static void in_parent_##name(void)    \
	{                                     \
		CALL(FORK_##name, in_parent); \
	}                                     \
	static void in_child_##name(void)     \
	{                                     \
		CALL(FORK_##name, in_child);  \
	}
#include "base/fork.def"
#undef FORK_PART

static const struct fork_handlers recorders[] = {
#define FORK_PART(name, what) {before_##name, in_parent_##name, in_child_##name},
#include "base/fork.def"
#undef FORK_PART
};

/* Uses what it takes for all parts of the library to be there: a stream of one byte. */
static void use_rsockets(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(a);
	int listener = rsocket(AF_INET, SOCK_STREAM, 0), client = rsocket(AF_INET, SOCK_STREAM, 0), server;
	struct pollfd ready;
	char byte = 'x';

	assert_true(listener >= 0 && client >= 0);
	assert_int_equal(rbind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(rgetsockname(listener, (struct sockaddr *)&a, &length), 0);
	assert_int_equal(rlisten(listener, 1), 0);
	assert_int_equal(rfcntl(client, F_SETFL, O_NONBLOCK), 0);
	assert_true(rconnect(client, (struct sockaddr *)&a, length) == 0 || errno == EINPROGRESS);
	server = raccept(listener, NULL, NULL);
	assert_true(server >= 0);
	ready = (struct pollfd){client, POLLOUT, 0};
	assert_int_equal(rpoll(&ready, 1, -1), 1);
	assert_int_equal(rsend(client, &byte, 1, 0), 1);
	ready = (struct pollfd){server, POLLIN, 0};
	assert_int_equal(rpoll(&ready, 1, -1), 1);
	rclose(server);
	rclose(client);
	rclose(listener);
}

static void each_part_is_there_and_called_in_order(void **state)
{
	static const enum fork_part always[] = {FORK_CM_START, FORK_LOOP, FORK_VERBS, FORK_CM, FORK_SHAREABLE};
	static const enum fork_part used[] = {FORK_RSOCKET_SERVICE, FORK_RSOCKET_TABLE, FORK_HAZARD};
	int count = 0, last = 0;
	pid_t child;

	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		assert_non_null(fork_handlers_of(always[i]));
	use_rsockets();
	for (size_t i = 0; i < ARRAY_SIZE(used); i++)
		if (!fork_handlers_of(used[i]))
			fail_msg("part %d is not registered", used[i]);
	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(calls != MAP_FAILED);
	for (int i = 0; i < FORK_PARTS; i++)
		if ((handlers[i] = fork_handlers_of(i)))
			fork_watch(i, &recorders[i]);
	child = fork();
	if (!child)
		_exit(0);
	reap(child);
	for (int i = 0; i < FORK_PARTS; i++) {
		if (!handlers[i])
			continue;
		count++;
		fork_watch(i, handlers[i]);
		assert_true(calls->before_at[i] == last + 1);
		last = calls->before_at[i];
	}
	for (int i = 0; i < FORK_PARTS; i++)
		if (handlers[i]) {
			assert_int_equal(calls->in_parent_at[i], count + 1 - calls->before_at[i]);
			assert_int_equal(calls->in_child_at[i], count + 1 - calls->before_at[i]);
		}
	munmap(calls, sizeof(*calls));
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
		cmocka_unit_test(each_part_is_there_and_called_in_order),
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
