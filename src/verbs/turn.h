/* SPDX-License-Identifier: BSD-2-Clause */
/* A turn: a lock that a thread of the program holds between two of its calls, as from ibv_start_poll() to
 * ibv_end_poll(). Other threads wait for as long as the program keeps it, so no thread of uroce takes one. It has no
 * rank, as any thread may drop it: the names in parentheses are the functions, which check none. */
#ifndef UROCE_TURN_H
#define UROCE_TURN_H

#include "base/lock.h"

struct turn {
	struct lock lock;
	_Atomic(const void *) holder; /* NULL: none. Relaxed: only a thread itself writes, or compares with, its mark */
};

/* Waits for the turn. False: this thread has it already, and would wait for ever. No analysis: the lock is held when
 * this returns. */
static inline bool turn_take(struct turn *t) NO_LOCK_ANALYSIS
{
	static _Thread_local char mark;

	if (unlikely(!(lock_try)(&t->lock))) {
		if (atomic_load_explicit(&t->holder, memory_order_relaxed) == &mark)
			return false;
		lock_wait(&t->lock);
	}
	atomic_store_explicit(&t->holder, &mark, memory_order_relaxed);
	return true;
}

/* Ends the turn, by any thread. No effect if no thread has it. */
static inline void turn_drop(struct turn *t)
{
	atomic_store_explicit(&t->holder, NULL, memory_order_relaxed);
	lock_take_over(&t->lock);
	(lock_drop)(&t->lock);
}

#endif
