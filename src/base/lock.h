/* A lock of one word: taken without a system call when free, a futex when not. Prototypes name the locks that
 * their callers hold, and clang's thread-safety analysis (-Wthread-safety) checks them. The order in which locks
 * nest stands in ARCHITECTURE.md.
 *
 * A lock that one thread takes again and again is reserved for it ("biased locking"): it then says that it is inside, and looks
 * whether the reservation still stands. That is a plain store and a plain load, and five to ten times as fast as the
 * word, which needs locked instructions. Whoever else wants the lock takes the word, ends the reservation, makes the
 * store and the load of the other come in order (barrier.h), and waits until it is not inside. A lock that changes hands
 * is reserved ever more rarely. It has one owner in its life, as only he may write `inside`: he may be on his way there for
 * any time after he looked.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_LOCK_H
#define UROCE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/barrier.h"
#include "base/base.h"

#ifdef __clang__
#define LOCK_ATTR(x) __attribute__((x))
#else
#define LOCK_ATTR(x)
#endif
#define REQUIRES(...)   LOCK_ATTR(requires_capability(__VA_ARGS__))
#define EXCLUDES(...)   LOCK_ATTR(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...)    LOCK_ATTR(acquire_capability(__VA_ARGS__))
#define RELEASE(...)    LOCK_ATTR(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) LOCK_ATTR(try_acquire_capability(__VA_ARGS__))
#define NO_LOCK_ANALYSIS LOCK_ATTR(no_thread_safety_analysis)

/* All zeros is a free lock. */
struct LOCK_ATTR(capability("lock")) lock {
	_Atomic uint32_t word;	   /* 0 free, 1 held, 2 held and somebody sleeps; free while its owner is inside */
	_Atomic uint32_t reserved; /* the owner, or 0: not now. Written by who holds the word */
	_Atomic uint32_t inside;   /* the owner, while it holds the lock by its reservation. Written by it only */
	/* guarded by the word */
	uint32_t owner;	       /* the thread that it may be reserved for; 0: there is none yet */
	uint32_t last, streak; /* who took the word last, and how often in succession */
	uint32_t lost;	       /* reservations that others ended */
};

/* The number of this thread; none before it takes the word of some lock. */
#define LOCK_NO_THREAD UINT32_MAX
extern _Thread_local uint32_t lock_thread;

/* No lock is reserved for this thread from now on: it stands in for others, who will want them back. */
void lock_as_guest(void);

void lock_take_word(struct lock *l);
bool lock_try_word(struct lock *l);
void lock_wake(struct lock *l);
/* The owner has left, and the reservation is gone. */
void lock_left(struct lock *l);

static inline bool lock_is_reserved(const struct lock *l)
{
	/* sequentially consistent for ThreadSanitizer only: see lock_enter() */
	return atomic_load_explicit(&((struct lock *)l)->reserved,
				    BARRIER_KNOWN ? memory_order_relaxed : memory_order_seq_cst) == lock_thread;
}

static inline void lock_leave(struct lock *l)
{
	/* release pairs with the acquire in end_reservation(). The order of this and the look is made there, too */
	atomic_store_explicit(&l->inside, 0, BARRIER_KNOWN ? memory_order_release : memory_order_seq_cst);
	atomic_signal_fence(memory_order_seq_cst);
	if (unlikely(!lock_is_reserved(l)))
		lock_left(l);
}

static inline bool lock_enter(struct lock *l)
{
	if (!lock_is_reserved(l))
		return false;
	/* end_reservation() sees to the order of this and the next look: so either we see the reservation gone, or it sees
	 * us inside. Nobody else has held the lock since it was reserved, so there is nothing to acquire */
	atomic_store_explicit(&l->inside, lock_thread, BARRIER_KNOWN ? memory_order_relaxed : memory_order_seq_cst);
	atomic_signal_fence(memory_order_seq_cst);
	if (likely(lock_is_reserved(l)))
		return true;
	lock_leave(l);
	return false;
}

static inline void lock_take(struct lock *l) ACQUIRE(l) NO_LOCK_ANALYSIS
{
	if (!lock_enter(l))
		lock_take_word(l);
}

static inline bool lock_try(struct lock *l) TRY_ACQUIRE(true, l) NO_LOCK_ANALYSIS
{
	/* relaxed: it is this thread's number only if this thread wrote it */
	return atomic_load_explicit(&l->inside, memory_order_relaxed) != lock_thread && (lock_enter(l) || lock_try_word(l));
}

static inline void lock_drop(struct lock *l) RELEASE(l) NO_LOCK_ANALYSIS
{
	/* relaxed: who holds the word may see the owner's number for a moment, but not its own */
	if (atomic_load_explicit(&l->inside, memory_order_relaxed) == lock_thread) {
		lock_leave(l);
		return;
	}
	/* release: what was done under the lock is seen by the next holder */
	if (unlikely(atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2))
		lock_wake(l);
}

#endif
