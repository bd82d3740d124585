/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of what is called around a fork(): each part, in order. */
#include "base/fork.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

enum when { BEFORE, IN_PARENT, IN_CHILD };

/* In shared memory, as the child writes too: what was called in which process. */
static struct calls {
	int part[4 * FORK_PARTS], count;
} * calls; /* [enum when] */

static void note(enum when when, enum fork_part part)
{
	calls[when].part[calls[when].count++] = (int)part;
}

#define FORK_PART(name, what)                 \
	static void before_##name(void)       \
	{                                     \
		note(BEFORE, FORK_##name);    \
	}                                     \
	static void in_parent_##name(void)    \
	{                                     \
		note(IN_PARENT, FORK_##name); \
	}                                     \
	static void in_child_##name(void)     \
	{                                     \
		note(IN_CHILD, FORK_##name);  \
	}
#include "base/fork.def"
#undef FORK_PART

static const struct fork_handlers recorders[] = {
#define FORK_PART(name, what) {before_##name, in_parent_##name, in_child_##name},
#include "base/fork.def"
#undef FORK_PART
};
static_assert(ARRAY_SIZE(recorders) == FORK_PARTS, "one for each");

static void fork_once(void)
{
	pid_t child;
	int status;

	memset(calls, 0, 3 * sizeof(*calls));
	child = fork();
	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static int forget_all(void **state)
{
	for (int i = 0; i < FORK_PARTS; i++)
		fork_watch(i, NULL);
	return 0;
}

static void each_part_is_called_in_the_order_of_the_table(void **state)
{
	/* registered in another order */
	for (int i = 0; i < FORK_PARTS; i++)
		fork_watch((i * 5 + 3) % FORK_PARTS, &recorders[(i * 5 + 3) % FORK_PARTS]);
	fork_once();
	for (int w = BEFORE; w <= IN_CHILD; w++) {
		assert_int_equal(calls[w].count, FORK_PARTS);
		for (int i = 0; i < FORK_PARTS; i++)
			assert_int_equal(calls[w].part[i], w == BEFORE ? i : FORK_PARTS - 1 - i);
	}
}

static void a_part_may_have_one_handler_only(void **state)
{
	static const struct fork_handlers child_only = {.in_child = in_child_TRACE};
	static const struct fork_handlers before_only = {.before = before_LOOP};

	fork_watch(FORK_TRACE, &child_only);
	fork_watch(FORK_LOOP, &before_only);
	assert_ptr_equal(fork_handlers_of(FORK_LOOP), &before_only);
	assert_null(fork_handlers_of(FORK_CM));
	fork_once();
	assert_int_equal(calls[BEFORE].count, 1);
	assert_int_equal(calls[IN_PARENT].count, 0);
	assert_int_equal(calls[IN_CHILD].count, 1);
	fork_once(); /* once each, however often */
	assert_int_equal(calls[BEFORE].count, 1);
}

static void register_others(void)
{
	note(BEFORE, FORK_VERBS);
	fork_watch(FORK_LOOP, &recorders[FORK_LOOP]); /* above: its tx batch is over */
}

static void one_that_is_registered_during_a_fork_takes_part_in_the_next(void **state)
{
	static const struct fork_handlers registering = {register_others, in_parent_VERBS, in_child_VERBS};

	fork_watch(FORK_VERBS, &registering);
	fork_once();
	for (int w = BEFORE; w <= IN_CHILD; w++) {
		assert_int_equal(calls[w].count, 1);
		assert_int_equal(calls[w].part[0], FORK_VERBS);
	}
	fork_once();
	for (int w = BEFORE; w <= IN_CHILD; w++)
		assert_int_equal(calls[w].count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_part_is_called_in_the_order_of_the_table, forget_all),
		cmocka_unit_test_setup(a_part_may_have_one_handler_only, forget_all),
		cmocka_unit_test_setup(one_that_is_registered_during_a_fork_takes_part_in_the_next, forget_all),
	};

	calls = mmap(NULL, 3 * sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (calls == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
