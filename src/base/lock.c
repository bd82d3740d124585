/* SPDX-License-Identifier: BSD-2-Clause */
/* The slow paths of a lock: spin a little (a critical section takes the time of one packet), then sleep in the
 * kernel. */
#include "base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS 100

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
	for (int i = 0; i < SPINS; i++) {
		if (lock_try(l) || lock_inherit(l))
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
