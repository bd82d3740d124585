/* The slow paths of a lock: spin a little (critical sections are one packet long), then sleep in the kernel.
 * SPDX-License-Identifier: BSD-2-Clause */
#include "base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS	   100
#define STREAK	   256u /* takes in succession for which a lock is reserved; four times as many after each loss ... */
#define LOSSES	   6u	/* ... up to these */

_Thread_local uint32_t lock_thread = LOCK_NO_THREAD;
static _Thread_local bool is_guest;
static _Atomic uint32_t threads;

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void sleep_while(_Atomic uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- the word ---- */

static bool try_word(struct lock *l)
{
	uint32_t free = 0;

	/* acquire pairs with the release in lock_drop() */
	return atomic_load_explicit(&l->word, memory_order_relaxed) == 0 &&
	       atomic_compare_exchange_strong_explicit(&l->word, &free, 1, memory_order_acquire, memory_order_relaxed);
}

static void wait_for_word(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		if (try_word(l))
			return;
		relax();
	}
	/* 2 tells the holder to wake us; acquire pairs with the release in lock_drop() */
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
		sleep_while(&l->word, 2);
}

void lock_wake(struct lock *l)
{
	wake(&l->word);
}

/* ---- the reservation; what follows is called with the word held ---- */

static uint32_t this_thread(void)
{
	/* relaxed: only the number counts */
	if (unlikely(lock_thread == LOCK_NO_THREAD))
		lock_thread = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
	return lock_thread;
}

void lock_as_guest(void)
{
	is_guest = true;
}

static bool is_reserved(const struct lock *l)
{
	/* relaxed: written under the word only */
	return atomic_load_explicit(&((struct lock *)l)->reserved, memory_order_relaxed);
}

/* Without one, two threads that meet at a lock would both be in it. */
static void reserve(struct lock *l, uint32_t thread)
{
	if (!barrier_has_threads() || is_guest)
		return;
	l->owner = thread;
	atomic_store_explicit(&l->reserved, thread, memory_order_relaxed);
}

/* Reserves it for a thread that comes again and again, if it may be. */
static void count(struct lock *l, uint32_t thread)
{
	if (l->last != thread) {
		l->last = thread;
		l->streak = 0;
	}
	if (++l->streak >= STREAK << 2 * min_of(l->lost, LOSSES) && (!l->owner || l->owner == thread)) {
		l->streak = 0;
		reserve(l, thread);
	}
}

/* The owner's next look sees it; what it said before that is seen here from now on. */
static void end_reservation(struct lock *l)
{
	/* sequentially consistent for ThreadSanitizer: see lock_enter() */
	atomic_store_explicit(&l->reserved, 0, memory_order_seq_cst);
	if (BARRIER_KNOWN)
		barrier_threads();
}

static uint32_t inside(struct lock *l)
{
	/* acquire pairs with lock_leave(): what was done inside is seen here */
	return atomic_load_explicit(&l->inside, BARRIER_KNOWN ? memory_order_acquire : memory_order_seq_cst);
}

void lock_left(struct lock *l)
{
	wake(&l->inside);
}

void lock_take_word(struct lock *l)
{
	uint32_t thread = this_thread(), owner;

	if (unlikely(!try_word(l)))
		wait_for_word(l);
	if (likely(!is_reserved(l))) {
		count(l, thread);
		return;
	}
	if (l->owner == thread) /* lock_try_word() has given it back: nobody but us could be inside */
		return;
	end_reservation(l);
	l->lost++;
	while ((owner = inside(l)))
		sleep_while(&l->inside, owner);
}

bool lock_try_word(struct lock *l)
{
	uint32_t thread = this_thread();

	/* relaxed: a hint, since the owner may come back at once */
	if (atomic_load_explicit(&l->inside, memory_order_relaxed) || !try_word(l))
		return false;
	if (likely(!is_reserved(l))) {
		count(l, thread);
		return true;
	}
	if (l->owner == thread)
		return true;
	end_reservation(l);
	if (likely(!inside(l))) {
		l->lost++;
		return true;
	}
	atomic_store_explicit(&l->reserved, l->owner, memory_order_relaxed);
	if (atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)
		lock_wake(l);
	return false;
}
