/* SPDX-License-Identifier: BSD-2-Clause */
/* Private memory that is registered moves into the arena, and nobody notices.
 * ThreadSanitizer has a thread of its own, so nothing moves there: these tests then return early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "memory/shareable.h"
#include "memory/maps.h"

#ifdef __SANITIZE_THREAD__
#define MOVES false
#else
#define MOVES true
#endif

static struct arena *arena;
static size_t page;

static char *fresh(size_t pages)
{
	char *at = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static char pattern(size_t i)
{
	return (char)(i * 7 + i / 251 + 1);
}

static void fill(char *at, size_t length)
{
	for (size_t i = 0; i < length; i++)
		at[i] = pattern(i);
}

static void check(const char *at, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (at[i] != pattern(i))
			fail_msg("byte %zu is %d, not %d", i, at[i], pattern(i));
}

/* The arena as a local peer sees it. */
static char *view(const struct shareable *w)
{
	char *at = mmap(NULL, w->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd(arena), (off_t)w->offset);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static size_t arena_pages(void)
{
	struct stat st;

	assert_int_equal(fstat(arena_fd(arena), &st), 0);
	return (size_t)st.st_blocks * 512 / page;
}

/* Of these, how many are in memory. */
static size_t pages_in(uint64_t offset, uint64_t length)
{
	off_t at = (off_t)offset, end = at + (off_t)length, hole;
	size_t bytes = 0;

	while ((at = lseek(arena_fd(arena), at, SEEK_DATA)) >= 0 && at < end) {
		hole = lseek(arena_fd(arena), at, SEEK_HOLE);
		bytes += (size_t)(min_of(hole, end) - at);
		at = hole;
	}
	return bytes / page;
}

static void the_whole_pages_of_a_region_move(void **state)
{
	static const struct {
		size_t from, length, skip, mapped; /* in eighths of a page */
	} rows[] = {
		{0, 64, 0, 64}, {0, 8, 0, 8}, {1, 62, 7, 48}, {1, 63, 7, 56}, {7, 9, 1, 8},
		{7, 8, 0, 0},	{1, 7, 0, 0}, {3, 2, 0, 0},   {0, 63, 0, 56}, {8, 1, 0, 0},
	};

	for (size_t i = 0; MOVES && i < ARRAY_SIZE(rows); i++) {
		size_t eighth = page / 8;
		char *at = fresh(8), *there;
		struct shareable w;

		fill(at, 8 * page);
		shareable_make(arena, at + rows[i].from * eighth, rows[i].length * eighth, true, &w);
		assert_int_equal(w.mapped, rows[i].mapped * eighth);
		assert_int_equal(w.skip, rows[i].skip * eighth);
		check(at, 8 * page);
		if (w.mapped) {
			there = view(&w);
			assert_memory_equal(there, at + rows[i].from * eighth + w.skip, w.mapped);
			there[w.mapped - 1] = 99;
			assert_int_equal(at[rows[i].from * eighth + w.skip + w.mapped - 1], 99);
			at[rows[i].from * eighth + w.skip] = 98;
			assert_int_equal(there[0], 98);
			munmap(there, w.mapped);
		}
		shareable_release(arena, at + rows[i].from * eighth, rows[i].length * eighth, &w);
		munmap(at, 8 * page);
	}
}

static void what_was_not_touched_is_not_now(void **state)
{
	size_t pages = ((size_t)1 << 30) / page;
	char *at = fresh(pages);
	struct shareable w;

	if (!MOVES)
		return;
	at[5 * page] = 5;
	at[(pages - 1) * page] = 6;
	shareable_make(arena, at, pages * page, true, &w);
	assert_int_equal(w.mapped, pages * page);
	/* transparent huge pages have more of them */
	assert_in_range(pages_in(w.offset, w.mapped), 2, 2 * ((2u << 20) / page));
	assert_int_equal(at[5 * page], 5);
	assert_int_equal(at[(pages - 1) * page], 6);
	assert_int_equal(at[pages / 2 * page], 0);
	shareable_release(arena, at, pages * page, &w);
	munmap(at, pages * page);
}

static void the_same_memory_is_found_again(void **state)
{
	char *at = fresh(8);
	struct shareable a, b, c;

	if (!MOVES)
		return;
	shareable_make(arena, at, 8 * page, true, &a);
	shareable_make(arena, at + 2 * page + 1, 4 * page, true, &b);
	assert_int_equal(b.mapped, 3 * page);
	assert_int_equal(b.offset, a.offset + 3 * page);
	shareable_release(arena, at, 8 * page, &a);
	shareable_release(arena, at + 2 * page + 1, 4 * page, &b);
	shareable_make(arena, at, 8 * page, true, &c);
	assert_int_equal(c.offset, a.offset);
	shareable_release(arena, at, 8 * page, &c);
	munmap(at, 8 * page);
}

static bool moves(void *at, size_t length)
{
	struct shareable w;

	shareable_make(arena, at, length, true, &w);
	shareable_release(arena, at, length, &w);
	return w.mapped;
}

static void pages_of_open_regions_stay_where_they_are(void **state)
{
	char *at = fresh(8);
	struct shareable edge, whole;

	if (!MOVES)
		return;
	/* parts of pages, which local peers write to where they are */
	shareable_make(arena, at + page + 1, 100, true, &edge);
	assert_int_equal(edge.mapped, 0);
	assert_false(moves(at, 8 * page));
	assert_true(moves(at + 2 * page, page));
	shareable_release(arena, at + page + 1, 100, &edge);
	assert_true(moves(at + page, page));

	/* what may not move at all */
	shareable_make(arena, at + 4 * page, 2 * page, false, &whole);
	assert_int_equal(whole.mapped, 0);
	assert_false(moves(at + 5 * page, page));
	shareable_release(arena, at + 4 * page, 2 * page, &whole);
	assert_true(moves(at + 5 * page, page));
	munmap(at, 8 * page);
}

static void many_open_regions_stop_it(void **state)
{
	enum { MANY = 1500 };
	char *at = fresh(2 * MANY + 2);
	struct shareable w[MANY];

	if (!MOVES)
		return;
	for (size_t i = 0; i < MANY; i++)
		shareable_make(arena, at + 2 * i * page, 10, true, &w[i]);
	assert_false(moves(at + 2 * MANY * page, page));
	for (size_t i = 0; i < MANY; i++)
		shareable_release(arena, at + 2 * i * page, 10, &w[i]);
	assert_true(moves(at + 2 * MANY * page, page));
	munmap(at, (2 * MANY + 2) * page);
}

static void what_is_not_private_memory_stays(void **state)
{
	char *shared = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *mixed = fresh(4), *fixed = fresh(4), *locked = fresh(4);
	char stack[4 * 4096];
	FILE *file = tmpfile();
	char *mapped;

	assert_int_equal(ftruncate(fileno(file), (off_t)(4 * page)), 0);
	mapped = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
	assert_false(moves(shared, 4 * page));
	assert_false(moves(mapped, 4 * page));
	assert_false(moves(stack, sizeof(stack)));
	assert_int_equal(mprotect(mixed + page, page, PROT_READ), 0);
	assert_false(moves(mixed, 4 * page));
	assert_int_equal(munmap(fixed + page, page), 0);
	assert_false(moves(fixed, 4 * page));
	/* the sanitizers make the functions do nothing */
	if (!syscall(SYS_mlock, locked, page)) {
		assert_false(moves(locked + 2 * page, page));
		assert_int_equal(syscall(SYS_munlock, locked, page), 0);
	}
	munmap(shared, 4 * page);
	munmap(mapped, 4 * page);
	munmap(mixed, 4 * page);
	munmap(fixed, page);
	munmap(fixed + 2 * page, 2 * page);
	munmap(locked, 4 * page);
	fclose(file);
}

static pid_t waiter;

static void *wait_for_word(void *fd)
{
	char byte;

	waiter = gettid();
	assert_int_equal(read(*(int *)fd, &byte, 1), 1);
	return NULL;
}

/* Until the kernel counts it no more: who is joined may still be on his way out. */
static void until_gone(pthread_t thread)
{
	pthread_join(thread, NULL);
	while (syscall(SYS_tgkill, getpid(), waiter, 0) == 0)
		sched_yield();
}

static void a_second_thread_stops_it(void **state)
{
	char *at = fresh(4);
	pthread_t thread;
	int fd[2];

	if (!MOVES)
		return;
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_word, &fd[0]), 0);
	assert_false(moves(at, 4 * page));
	shareable_own_thread(1); /* if it is ours, it does no harm */
	assert_true(moves(at, 4 * page));
	shareable_own_thread(-1);
	assert_int_equal(write(fd[1], "x", 1), 1);
	until_gone(thread);
	close(fd[0]);
	close(fd[1]);
	munmap(at, 4 * page);
}

/* Ends a child: without what the sanitizers and cmocka do at exit. */
static void expect_child(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_child_has_a_copy_of_its_own(void **state)
{
	size_t pages = 600;
	char *at = fresh(pages);
	struct shareable w;

	if (!MOVES)
		return;
	fill(at, pages / 2 * page);
	shareable_make(arena, at, pages * page, true, &w);
	assert_int_equal(w.mapped, pages * page);
	assert_int_equal(mprotect(at + page, page, PROT_READ), 0);
	for (int i = 0; i < 20; i++) {
		int fd[2];
		pid_t pid;
		char byte;

		assert_int_equal(pipe(fd), 0);
		pid = fork();
		if (!pid) {
			bool ok = read(fd[0], &byte, 1) == 1; /* the parent has written to all of it by then */

			for (size_t n = 0; n < pages / 2 * page; n++)
				ok &= at[n] == pattern(n);
			for (size_t n = pages / 2 * page; n < pages * page; n++)
				ok &= at[n] == 0;
			memset(at + 2 * page, 77, (pages - 2) * page);
			_exit(!ok);
		}
		memset(at + 2 * page, 66, (pages - 2) * page);
		assert_int_equal(write(fd[1], "x", 1), 1);
		expect_child(pid);
		for (size_t n = 2 * page; n < pages * page; n++)
			if (at[n] != 66)
				fail_msg("byte %zu is the child's: %d", n, at[n]);
		for (size_t n = 2 * page; n < pages * page; n++)
			at[n] = n < pages / 2 * page ? pattern(n) : 0;
		close(fd[0]);
		close(fd[1]);
	}
	shareable_release(arena, at, pages * page, &w);
	munmap(at, pages * page);
}

/* What a handler of fork() of somebody else does in the child, where it finds what it guards on made shareable memory.
 */
static char *scribbled;

static void scribble(void)
{
	if (scribbled)
		*scribbled = 77;
}

static void a_child_has_its_copy_before_its_handlers_write(void **state)
{
	char *at = fresh(4);
	pid_t pid;

	if (!MOVES)
		return;
	assert_true(moves(at, 4 * page));
	at[page] = 1;
	scribbled = at + page;
	pid = fork();
	if (!pid)
		_exit(at[page] != 77);
	scribbled = NULL;
	expect_child(pid);
	assert_int_equal(at[page], 1);
	munmap(at, 4 * page);
}

static void a_child_may_adopt_too(void **state)
{
	char *at = fresh(4);
	pid_t pid;

	if (!MOVES)
		return;
	assert_true(moves(at, 4 * page));
	pid = fork();
	if (!pid) {
		struct arena *parents = arena;

		arena = arena_get();
		_exit(!(arena && arena != parents && arena_fd(arena) >= 0 && moves(at, 4 * page)));
	}
	expect_child(pid);
	assert_true(moves(at, 4 * page));
	munmap(at, 4 * page);
}

static void memory_of_our_own_is_adopted_even_beside_threads(void **state)
{
	int pipe_fd[2];
	pthread_t thread;
	struct shareable where, again;
	char *at;

	assert_int_equal(pipe(pipe_fd), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_word, &pipe_fd[0]), 0);
	at = shareable_new(arena, 3 * page + 1);
	assert_non_null(at);
	fill(at, 4 * page);
	shareable_make(arena, at, 4 * page, true, &where);
	assert_int_equal(where.mapped, 4 * page);
	assert_int_equal(where.skip, 0);
	check(at, 4 * page);
	shareable_make(arena, at + page, page, true, &again);
	assert_int_equal(again.offset, where.offset + page);
	shareable_release(arena, at + page, page, &again);
	shareable_release(arena, at, 4 * page, &where);
	munmap(at, 4 * page);
	assert_int_equal(write(pipe_fd[1], "", 1), 1);
	until_gone(thread);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
}

static void emptied_pages_are_zeros(void **state)
{
	char *at = fresh(8);
	size_t before;
	struct shareable w;

	if (!MOVES)
		return;
	fill(at, 8 * page);
	shareable_make(arena, at + page, 6 * page, true, &w);
	before = pages_in(w.offset, w.mapped);
	assert_int_equal(madvise(at, 3 * page, MADV_DONTNEED), 0);
	assert_int_equal(before - pages_in(w.offset, w.mapped), 2);
	for (size_t i = 0; i < 3 * page; i++)
		assert_int_equal(at[i], 0);
	for (size_t i = 3 * page; i < 8 * page; i++)
		assert_int_equal(at[i], pattern(i));
	shareable_release(arena, at + page, 6 * page, &w);
	munmap(at, 8 * page);
}

static void memory_that_is_unmapped_is_given_back(void **state)
{
	size_t pages = (8u << 20) / page, before = arena_pages();

	if (!MOVES)
		return;
	for (int i = 0; i < 100; i++) {
		char *at = fresh(pages);

		memset(at, i, pages * page);
		assert_true(moves(at, pages * page));
		munmap(at, pages * page);
		assert_in_range(arena_pages(), 0, before + 20 * pages);
	}
}

static void a_mapping_that_grows_runs_into_no_other(void **state)
{
	char *a = fresh(4), *b = fresh(4), *more;
	struct shareable wa, wb;

	if (!MOVES)
		return;
	memset(a, 1, 4 * page);
	memset(b, 2, 4 * page);
	shareable_make(arena, a, 4 * page, true, &wa);
	shareable_make(arena, b, 4 * page, true, &wb);
	more = mremap(a, 4 * page, 64 * page, MREMAP_MAYMOVE);
	assert_ptr_not_equal(more, MAP_FAILED);
	for (size_t i = 0; i < 4 * page; i++)
		assert_int_equal(more[i], 1);
	for (size_t i = 4 * page; i < 64 * page; i++)
		assert_int_equal(more[i], 0);
	memset(more, 3, 64 * page);
	for (size_t i = 0; i < 4 * page; i++)
		assert_int_equal(b[i], 2);
	shareable_release(arena, a, 4 * page, &wa);
	shareable_release(arena, b, 4 * page, &wb);
	munmap(more, 64 * page);
	munmap(b, 4 * page);
}

static volatile uint64_t *counter;
static volatile sig_atomic_t signals;

static void count(int signal)
{
	for (int i = 0; i < 64; i++)
		counter[i * 64]++;
	signals = signals + 1;
}

static void signal_handlers_lose_nothing(void **state)
{
	struct itimerval timer = {{0, 50}, {0, 50}}, off = {0};
	struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART}, old;

	if (!MOVES)
		return;
	counter = (volatile uint64_t *)fresh(16);
	signals = 0;
	assert_int_equal(sigaction(SIGALRM, &action, &old), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
	for (int round = 0; round < 300; round++) {
		sigset_t alarm, before;
		char *at = fresh(16);

		/* memory that the handler writes to, from the first moment that there is any */
		sigemptyset(&alarm);
		sigaddset(&alarm, SIGALRM);
		sigprocmask(SIG_BLOCK, &alarm, &before);
		memcpy(at, (void *)counter, 16 * page);
		munmap((void *)counter, 16 * page);
		counter = (volatile uint64_t *)at;
		sigprocmask(SIG_SETMASK, &before, NULL);
		assert_true(moves(at, 16 * page));
	}
	setitimer(ITIMER_REAL, &off, NULL);
	for (int i = 0; i < 64; i++)
		assert_int_equal(counter[i * 64], signals);
	sigaction(SIGALRM, &old, NULL);
	munmap((void *)counter, 16 * page);
}

static void it_can_be_switched_off(void **state)
{
	setenv("UROCE_ADOPT", "off", 1);
	assert_null(arena_get());
	unsetenv("UROCE_ADOPT");
	/* nobody is there who could map it */
	setenv("UROCE_LOCAL", "off", 1);
	assert_null(arena_get());
	unsetenv("UROCE_LOCAL");
	assert_ptr_equal(arena_get(), arena);
	assert_int_equal(arena_fd(NULL), -1);
	assert_false(({
		struct shareable w;

		shareable_make(NULL, state, 1 << 20, true, &w);
		shareable_release(NULL, state, 1 << 20, &w);
		w.mapped;
	}));
}

static int as_older(void **state)
{
	maps_old = true;
	return 0;
}

static int as_newer(void **state)
{
	maps_old = false;
	return 0;
}

#define TEST(name)                                                        \
	cmocka_unit_test(name),                                           \
	{                                                                 \
#name "_on_older_kernels", name, as_older, as_newer, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_whole_pages_of_a_region_move),
		TEST(what_was_not_touched_is_not_now),
		TEST(the_same_memory_is_found_again),
		TEST(pages_of_open_regions_stay_where_they_are),
		TEST(many_open_regions_stop_it),
		TEST(what_is_not_private_memory_stays),
		TEST(a_second_thread_stops_it),
		TEST(a_child_has_a_copy_of_its_own),
		TEST(a_child_has_its_copy_before_its_handlers_write),
		TEST(a_child_may_adopt_too),
		TEST(memory_of_our_own_is_adopted_even_beside_threads),
		TEST(emptied_pages_are_zeros),
		TEST(memory_that_is_unmapped_is_given_back),
		TEST(a_mapping_that_grows_runs_into_no_other),
		TEST(signal_handlers_lose_nothing),
		TEST(it_can_be_switched_off),
	};

	page = (size_t)sysconf(_SC_PAGESIZE);
	pthread_atfork(NULL, NULL, scribble); /* before anything is made shareable */
	arena = arena_get();
	assert(arena);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
