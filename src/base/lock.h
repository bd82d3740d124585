/* SPDX-License-Identifier: BSD-2-Clause */
/* A lock of one word: an atomic instruction if free, else a futex. Prototypes name the locks that their callers hold;
 * clang's thread-safety analysis (-Wthread-safety) checks them. lock_rank.def has the order in which locks nest. */
#ifndef UROCE_LOCK_H
#define UROCE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/lock_rank.h"

#ifdef __clang__
#define LOCK_ATTR(x) __attribute__((x))
#else
#define LOCK_ATTR(x)
#endif
#define REQUIRES(...)	 LOCK_ATTR(requires_capability(__VA_ARGS__))
#define EXCLUDES(...)	 LOCK_ATTR(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...)	 LOCK_ATTR(acquire_capability(__VA_ARGS__))
#define RELEASE(...)	 LOCK_ATTR(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) LOCK_ATTR(try_acquire_capability(__VA_ARGS__))
#define ASSERTS(...)	 LOCK_ATTR(assert_capability(__VA_ARGS__))
#define NO_LOCK_ANALYSIS LOCK_ATTR(no_thread_safety_analysis)
/* For a variable or a field of a struct. For a field in C, only clang 19 and newer can resolve the lock: see
 * tools/check-locks. */
#ifdef UROCE_CHECK_LOCKS
#define GUARDED_BY(x) LOCK_ATTR(guarded_by(x))
#else
#define GUARDED_BY(x)
#endif

/* 0: free; lock_held: held; LOCK_WANTED more: a thread may be sleeping. All zeros is a free lock. */
struct LOCK_ATTR(capability("lock")) lock {
	_Atomic uint32_t word;
#ifdef UROCE_LOCK_RANKS
	_Atomic(enum lock_rank) rank; /* relaxed: it is set before other threads see the lock, or to what it was */
#endif
};

/* The initializer of a static lock. */
#ifdef UROCE_LOCK_RANKS
#define LOCK_RANKED(rank)      \
	{                      \
		0, RANK_##rank \
	}
#else
#define LOCK_RANKED(rank) \
	{                 \
		0         \
	}
#endif

/* For a lock in memory that is zeroed when it is made. The word stays. */
static inline void lock_set_rank(struct lock *l, enum lock_rank rank)
{
#ifdef UROCE_LOCK_RANKS
	atomic_store_explicit(&l->rank, rank, memory_order_relaxed);
#endif
}

#define LOCK_WANTED 1u

/* Of this process: a child of fork() has another. So it sees which locks other threads of its parent held, who are not
 * there to drop them: these are taken as if they were free. */
extern uint32_t lock_held;

/* In a child of fork(), before it has threads. What its parent's handlers have taken is to be dropped as ever. */
void lock_in_child(void);

/* The next five functions tell clang's analysis what it cannot derive. */

/* The lock is held. For a callback: the prototype of its caller says so. */
static inline void lock_assert_held(struct lock *l) ASSERTS(l)
{
	assert(atomic_load_explicit(&l->word, memory_order_relaxed));
}

/* The same by a token: a struct that only a thread with the lock has, passed through a table of callbacks. Costs
 * nothing; builds with ranks check it. */
static inline void lock_by_token(struct lock *l) ASSERTS(l)
{
	(void)l;
}

/* No other thread can reach what the lock guards: the object is being created or freed, or this is the only thread of a
 * child process. */
static inline void lock_assert_unshared(struct lock *l) ASSERTS(l)
{
	(void)l;
}

/* The lock leaves this function held: an object is returned locked, or the first of a pair of functions takes the lock
 * and the second drops it. No analysis: the body does nothing. */
static inline void lock_hand_over(struct lock *l) RELEASE(l) NO_LOCK_ANALYSIS
{
	(void)l;
}

/* The counterpart of lock_hand_over(): the caller has the lock from here on. No analysis: the body does nothing. */
static inline void lock_take_over(struct lock *l) ACQUIRE(l) NO_LOCK_ANALYSIS
{
	(void)l;
}

/* lock_take() of a lock that is held: sleeps. lock_drop() where another thread may sleep: wakes it. */
void lock_wait(struct lock *l) ACQUIRE(l);
void lock_wake(struct lock *l);

static inline void lock_take(struct lock *l) ACQUIRE(l)
{
	uint32_t free = 0;

	/* acquire pairs with the release in lock_drop() */
	if (unlikely(!atomic_compare_exchange_strong_explicit(&l->word, &free, lock_held, memory_order_acquire,
							      memory_order_relaxed)))
		lock_wait(l);
	else
		lock_take_over(l);
}

/* No analysis: only the value of the word says whether the lock was taken. */
static inline bool lock_try(struct lock *l) TRY_ACQUIRE(true, l) NO_LOCK_ANALYSIS
{
	uint32_t free = 0;

	return atomic_load_explicit(&l->word, memory_order_relaxed) == 0 &&
	       atomic_compare_exchange_strong_explicit(&l->word, &free, lock_held, memory_order_acquire,
						       memory_order_relaxed);
}

/* True if another thread sleeps until the lock is free. The caller holds the lock. */
static inline bool lock_is_wanted(struct lock *l) REQUIRES(l)
{
	return atomic_load_explicit(&l->word, memory_order_relaxed) & LOCK_WANTED; /* a hint */
}

static inline void lock_drop(struct lock *l) RELEASE(l)
{
	lock_hand_over(l);
	/* release: the next holder sees what was done under the lock */
	if (unlikely(atomic_exchange_explicit(&l->word, 0, memory_order_release) & LOCK_WANTED))
		lock_wake(l);
}

/* The same with a full barrier: stores made under the lock come before all later loads. */
static inline void lock_drop_fully(struct lock *l) RELEASE(l)
{
	lock_drop(l);
#ifdef __x86_64__
	atomic_signal_fence(memory_order_seq_cst); /* the exchange is a full barrier */
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* A name in parentheses, as in (lock_try)(l), is the function, which does not look at ranks. */
#ifdef UROCE_LOCK_RANKS
#define LOCK_PLACE__(line)  #line
#define LOCK_PLACE_(line)   LOCK_PLACE__(line)
#define LOCK_PLACE	    __FILE__ ":" LOCK_PLACE_(__LINE__)
#define lock_take(l)	    lock_take(rank_take(l, LOCK_PLACE))
#define lock_try(l)	    rank_tried(lock_try(l), l, LOCK_PLACE)
#define lock_drop(l)	    lock_drop(rank_drop(l, LOCK_PLACE))
#define lock_drop_fully(l)  lock_drop_fully(rank_drop(l, LOCK_PLACE))
#define lock_assert_held(l) lock_assert_held(rank_held(l, LOCK_PLACE))
#define lock_by_token(l)    lock_by_token(rank_held(l, LOCK_PLACE))
#endif

#endif
