/* SPDX-License-Identifier: BSD-2-Clause */
/* unwind() finds what backtrace(3) does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check/unwind.h"

#define FRAMES 64
#define BEHIND __attribute__((noinline, noclone))
#ifdef __clang__
#define WITH(option)
#else
#define WITH(option) __attribute__((optimize(option)))
#endif
#define HIDE(at) __asm__ volatile("" : : "r"(at) : "memory")

static uint32_t compared; /* frames */

/* Both have the frames from the caller on; the innermost return addresses, in this function, differ. */
static BEHIND void compare(void)
{
	void *mine[FRAMES], *theirs[FRAMES];
	uint32_t count = unwind(mine, FRAMES), of_mine = 1, of_theirs = 1;
	uint32_t all = (uint32_t)backtrace(theirs, FRAMES);

	assert_true(count > 2 && all > 2);
	while (of_theirs < all && theirs[of_theirs] != __builtin_return_address(0))
		of_theirs++;
	while (of_mine < count && mine[of_mine] != __builtin_return_address(0))
		of_mine++;
	assert_int_equal(count - of_mine, all - of_theirs);
	assert_memory_equal(mine + of_mine, theirs + of_theirs, (count - of_mine) * sizeof(void *));
	compared = count - of_mine;
}

static BEHIND void recurse(int depth)
{
	if (depth)
		recurse(depth - 1);
	else
		compare();
	HIDE(&depth);
}

static BEHIND void with_large_frame(void)
{
	char room[200000];

	HIDE(room);
	compare();
	HIDE(room);
}

static BEHIND void with_alloca(size_t size)
{
	char *room = alloca(size);

	memset(room, 1, size);
	HIDE(room);
	recurse(2);
	HIDE(room);
}

static BEHIND void with_aligned_frame(size_t size)
{
	_Alignas(256) char room[256];
	char *more = alloca(size);

	assert_false((uintptr_t)room % 256);
	HIDE(room);
	HIDE(more);
	recurse(1);
	HIDE(room);
}

static BEHIND WITH("no-omit-frame-pointer") void with_frame_pointer(int depth)
{
	recurse(depth);
	HIDE(&depth);
}

static BEHIND WITH("omit-frame-pointer") void without_frame_pointer(int depth)
{
	with_alloca((size_t)depth * 16);
	HIDE(&depth);
}

static void *in_thread(void *arg)
{
	without_frame_pointer(3);
	return arg;
}

static int compare_elements(const void *a, const void *b)
{
	compare();
	return *(const int *)a - *(const int *)b;
}

static void stacks_are_those_of_backtrace(void **state)
{
	pthread_t thread;
	int pair[] = {2, 1};

	(void)state;
	for (int round = 0; round < 3; round++) {
		compare();
		recurse(round);
		with_large_frame();
		with_alloca(100 + 1000 * (size_t)round);
		with_aligned_frame(100 + 1000 * (size_t)round);
		with_frame_pointer(round);
		without_frame_pointer(round);
		qsort(pair, 2, sizeof(*pair), compare_elements);
		assert_int_equal(pthread_create(&thread, NULL, in_thread, NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		unwind_refresh();
	}
	recurse(20);
	assert_true(compared > 20);
}

static void a_short_list_has_the_innermost(void **state)
{
	void *few[3], *all[FRAMES];

	(void)state;
	assert_int_equal(unwind(few, 3), 3);
	assert_true(unwind(all, FRAMES) > 3);
	assert_memory_equal(few + 1, all + 1, sizeof(few) - sizeof(*few));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_are_those_of_backtrace),
		cmocka_unit_test(a_short_list_has_the_innermost),
	};

	unwind_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
