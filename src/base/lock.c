/* SPDX-License-Identifier: BSD-2-Clause */
/* The slow paths of a lock: spin a little (a critical section takes the time of one packet), then sleep in the
 * kernel. And what checks ranks: lock_rank.h. */
#include "base/lock.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tuned.h"

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

uint32_t lock_held = 2;

void lock_in_child(void)
{
	lock_held += 2;
}

/* What this process, and no ancestor of its, holds. */
static bool is_ours(uint32_t word)
{
	return (word & ~LOCK_WANTED) == lock_held;
}

/* A lock of an ancestor: the first thread that comes has it. No analysis: only the value of the word says whether it
 * was taken. */
static bool lock_inherit(struct lock *l) TRY_ACQUIRE(true, l) NO_LOCK_ANALYSIS
{
	uint32_t word = atomic_load_explicit(&l->word, memory_order_relaxed);

	return word && !is_ours(word) &&
	       atomic_compare_exchange_strong_explicit(&l->word, &word, lock_held, memory_order_acquire,
						       memory_order_relaxed);
}

void lock_wait(struct lock *l)
{
	for (int i = 0; i < LOCK_SPINS; i++) {
		/* the function: lock_take() has added the lock to the thread's list */
		if ((lock_try)(l) || lock_inherit(l))
			return;
		relax();
	}
	/* LOCK_WANTED makes the holder wake this thread; acquire pairs with the release in lock_drop() */
	while (atomic_exchange_explicit(&l->word, lock_held | LOCK_WANTED, memory_order_acquire) != 0)
		syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, lock_held | LOCK_WANTED, NULL, NULL, 0);
	lock_take_over(l);
}

void lock_wake(struct lock *l)
{
	syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- ranks ---- */

#ifdef UROCE_LOCK_RANKS
#define RANK_HELD 32 /* locks that a thread holds at once; fork() takes 13 */

static const char *const rank_names[LOCK_RANKS] = {
	[RANK_NONE] = "a lock without a rank",
#define LOCK_RANK(name, lock, guards) [RANK_##name] = #name " (" lock ": " guards ")",
#include "base/lock_rank.def"
#undef LOCK_RANK
};

struct rank_entry {
	const struct lock *lock;
	const char *place;
	enum lock_rank rank;
};

static _Thread_local struct rank_entry rank_list[RANK_HELD];
static _Thread_local int rank_count;

static enum lock_rank rank_of(const struct lock *l)
{
	return atomic_load_explicit(&l->rank, memory_order_relaxed);
}

static _Noreturn void rank_end(const char *says, const struct lock *l, const char *place, const struct rank_entry *held)
{
	fprintf(stderr, "uroce: %s: %s at %s", says, rank_names[rank_of(l)], place);
	if (held)
		fprintf(stderr, ", while %s is held, taken at %s", rank_names[held->rank], held->place);
	fputs(" (src/base/lock_rank.def)\n", stderr);
	abort();
}

static void rank_add(struct lock *l, const char *place)
{
	int n = rank_count;

	if (rank_of(l) == RANK_NONE)
		rank_end("a lock has no rank", l, place, NULL);
	if (n == RANK_HELD)
		rank_end("too many locks are held", l, place, NULL);
	rank_list[n] = (struct rank_entry){l, place, rank_of(l)};
	atomic_signal_fence(memory_order_seq_cst); /* a handler of a signal adds behind it, and removes what it added */
	rank_count = n + 1;
}

struct lock *rank_take(struct lock *l, const char *place)
{
	enum lock_rank rank = rank_of(l);

	for (int i = 0; i < rank_count; i++)
		if (rank_list[i].rank >= rank)
			rank_end("locks are taken in the wrong order", l, place, &rank_list[i]);
	rank_add(l, place);
	return l;
}

bool rank_tried(bool taken, struct lock *l, const char *place)
{
	if (taken)
		rank_add(l, place);
	return taken;
}

static int rank_find(const struct lock *l)
{
	int i = rank_count - 1;

	while (i >= 0 && rank_list[i].lock != l)
		i--;
	return i;
}

struct lock *rank_drop(struct lock *l, const char *place)
{
	int i = rank_find(l);

	if (i < 0)
		rank_end("a thread drops a lock that it does not hold", l, place, NULL);
	for (; i < rank_count - 1; i++)
		rank_list[i] = rank_list[i + 1];
	rank_count--;
	return l;
}

struct lock *rank_held(struct lock *l, const char *place)
{
	if (rank_find(l) < 0)
		rank_end("a lock is not held by this thread", l, place, NULL);
	return l;
}
#endif
