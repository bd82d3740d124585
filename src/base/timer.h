/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers: a heap of deadlines. The next deadline is known exactly, so an idle process sleeps without a timeout. A timer
 * is moved lazily: to postpone a deadline costs nothing; the timer fires at the old deadline, and its owner sets it
 * again. Any thread may call. */
#ifndef UROCE_TIMER_H
#define UROCE_TIMER_H

#include "base/lock.h"

struct timer {
	uint64_t when; /* ns; valid while queued. Guarded by the heap's lock */
	uint32_t slot; /* index in the heap; 0: not queued. Guarded by the heap's lock */
};

struct timers {
	struct lock lock;
	struct timer **heap GUARDED_BY(&lock); /* heap[1] is the earliest */
	uint32_t count GUARDED_BY(&lock), room GUARDED_BY(&lock), members GUARDED_BY(&lock);
	_Atomic uint64_t next; /* ns: earliest deadline; NEVER: none. A hint that needs no lock */
};

/* Makes an empty heap; timers_fini() frees it, when no timer has room in it. */
void timers_init(struct timers *t);
void timers_fini(struct timers *t);

/* Reserves room for one timer, so that timer_set() cannot fail. 0 or -ENOMEM. */
int timers_join(struct timers *t) EXCLUDES(t->lock);
/* Removes the timer if it is queued, and frees its room. */
void timers_leave(struct timers *t, struct timer *timer) EXCLUDES(t->lock);

/* Makes the timer fire at `when`, in ns, or earlier: a timer that is queued for an earlier time keeps that time. True
 * if it is now the earliest of all. */
bool timer_set(struct timers *t, struct timer *timer, uint64_t when) EXCLUDES(t->lock);

/* Removes one timer that is due at `now` from the heap and returns it; NULL if none is due. */
struct timer *timers_pop(struct timers *t, uint64_t now) EXCLUDES(t->lock);

static inline uint64_t timers_next(struct timers *t)
{
	return atomic_load_explicit(&t->next, memory_order_relaxed); /* a hint: timers_pop() looks again */
}

#endif
