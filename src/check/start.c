/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/start.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fork.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/msan.h"
#include "check/across.h"
#include "check/arrivals.h"
#include "check/asan.h"
#include "check/ends.h"
#include "check/finding.h"
#include "check/leaks.h"
#include "check/msan.h"
#include "check/objects.h"
#include "check/order.h"
#include "check/pages.h"
#include "check/peers.h"
#include "check/scope.h"
#include "check/stack.h"
#include "check/watch.h"

static bool fork_is_prepared;

static pid_t checked; /* process that is checked; 0: none */

/* Called before fork(). */
static void check_fork(void)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "fork-unprepared",
		.remedy = "call ibv_fork_init() before anything is registered, or set RDMAV_FORK_SAFE=1",
		.text = "fork() while memory is registered, without ibv_fork_init(): on kernels before 5.12 a "
			"write of the parent may move its page away from the adapter",
		.at = {{"forks", NULL}, {"registered", NULL}}};

	if (check_is_paused() || !check_wants(CHECK_HABITS) || checked != getpid() || fork_is_prepared ||
	    getenv("RDMAV_FORK_SAFE") || getenv("IBV_FORK_SAFE"))
		return;
	lock_take(&objects_lock);
	for (const struct object *o = objects_next(NULL); o && !f.at[1].stack; o = objects_next(o))
		if (o->kind == CHECK_MR)
			f.at[1].stack = o->made;
	lock_drop(&objects_lock);
	f.at[0].stack = stack_here();
	if (f.at[1].stack)
		finding_report(&f);
}

void check_fork_prepared(void)
{
	fork_is_prepared = true;
}

static void check_forget(void)
{
	hook_set(HOOK_CHECK, false);
	hook_set(HOOK_CHILD, checked);
	checked = 0;
	ends_stop();
	pages_forget();
	watch_forget();
}

/* Reports what is only known at the end. Returns the exit status for the process, or 0 for its own. */
static int check_finish(void)
{
	pages_tell();
	watch_finish();
	msan_tell();
	across_finish();
	leaks_report();
	hook_set(HOOK_CHECK, false);
	return finding_sum_up();
}

/* The last destructor of the library: it may end the process. */
static void check_end(void) __attribute__((destructor(101)));

static void check_begin(void)
{
	static const struct fork_handlers handlers = {.before = check_fork, .in_child = check_forget};
	int words[CHECK_CLASSES + 1], count = config_words(CONFIG_CHECK, words, ARRAY_SIZE(words));

	if (!check_is_through && config_string(CONFIG_THROUGH))
		count = 0;
	if (!count && !msan_is_there()) /* MemorySanitizer needs to know what requests bring, and when */
		return;
	for (int i = 0; i < count; i++)
		for (int class = 0; class < CHECK_CLASSES; class ++)
			if (words[i] == class || words[i] == CHECK_CLASSES) /* "all" */
				check_want(class, true);
	if (check_is_through)
		check_want(CHECK_RACES, false); /* needs to know which requests are done */
	stack_start();
	finding_start();
	order_start();
	if (check_wants(CHECK_BUFFERS) || check_wants(CHECK_RACES) || msan_is_there())
		arrivals_start();
	if (check_wants(CHECK_RACES))
		peers_start();
	if (check_wants(CHECK_BUFFERS)) {
		asan_start();
		if (!check_is_through) {
			pages_start();
			watch_start();
		}
	}
	if (count) {
		checked = getpid();
		ends_start(check_finish);
		at_quick_exit(check_end);
	}
	fork_watch(FORK_CHECK, &handlers);
	hook_set(HOOK_CHECK, true);
}

void check_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, check_begin);
}

static void check_end(void)
{
	int status;

	if (!checked || checked != getpid())
		return;
	ends_stop();
	status = check_finish();
	if (!status)
		return;
	fflush(NULL);
	_exit(status);
}
