/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "base/lock.h"

static _Atomic(const struct fork_handlers *) fork_table[FORK_PARTS];

/* Handlers of the fork() that this thread is in. A part that registers during the fork is not among them, as its
 * `before` was not called. */
static _Thread_local const struct fork_handlers *fork_current[FORK_PARTS];

static void fork_before(void)
{
	for (int i = 0; i < FORK_PARTS; i++) {
		fork_current[i] = fork_handlers_of(i);
		if (fork_current[i] && fork_current[i]->before)
			fork_current[i]->before();
	}
}

static void fork_in_parent(void)
{
	for (int i = FORK_PARTS - 1; i >= 0; i--)
		if (fork_current[i] && fork_current[i]->in_parent)
			fork_current[i]->in_parent();
}

static void fork_in_child(void)
{
	lock_in_child();
	for (int i = FORK_PARTS - 1; i >= 0; i--)
		if (fork_current[i] && fork_current[i]->in_child)
			fork_current[i]->in_child();
}

__attribute__((constructor(101))) static void fork_register(void)
{
	pthread_atfork(fork_before, fork_in_parent, fork_in_child);
}

void fork_watch(enum fork_part part, const struct fork_handlers *handlers)
{
	/* release pairs with fork_handlers_of() */
	atomic_store_explicit(&fork_table[part], handlers, memory_order_release);
}

const struct fork_handlers *fork_handlers_of(enum fork_part part)
{
	return atomic_load_explicit(&fork_table[part], memory_order_acquire);
}
