/* SPDX-License-Identifier: BSD-2-Clause */
/* Who is in the middle of using an object, without a locked instruction: each thread has a list of what it holds, which
 * only it writes. It says first that it holds an object, then looks whether that is still open; who closes an object
 * says so first, then waits until it is on no list. Either the one sees it closed, or the other sees it held: the
 * closing side makes that order (barrier.h), or where it cannot, the list's count is stored sequentially consistently.
 *
 * What a thread holds it drops itself, soon, and before it ends. A child of fork() holds what the thread did that made
 * it. */
#ifndef UROCE_HAZARD_H
#define UROCE_HAZARD_H

#include <assert.h>

#include "base/barrier.h"

#define HAZARDS 190u /* that a thread has at most: those of a tx batch, and of a request besides */

/* Never given back; free for the next thread when its own has ended. */
struct hazards {
	_Alignas(
		CACHE_LINE) _Atomic uint32_t count; /* of held[]. A release, like all here: pairs with hazard_await() */
	_Atomic bool taken;
	struct hazards *next;		     /* constant */
	_Atomic(const void *) held[HAZARDS]; /* NULL: not any more, while others behind it are */
};

extern _Thread_local struct hazards *hazards_own;

/* The thread's first hold. NULL: out of memory. */
struct hazards *hazards_begin(void);

/* False: out of memory. */
static inline bool hazard_take(const void *object)
{
	struct hazards *h = hazards_own ?: hazards_begin();
	uint32_t n;

	if (unlikely(!h))
		return false;
	n = atomic_load_explicit(&h->count, memory_order_relaxed);
	assert(n < HAZARDS);
	atomic_store_explicit(&h->held[n], object, memory_order_release);
	if (barrier_is_ours()) {
		atomic_store_explicit(&h->count, n + 1, memory_order_release);
		atomic_signal_fence(memory_order_seq_cst); /* pairs with the barrier of hazard_await() */
	} else {
		atomic_store_explicit(&h->count, n + 1, memory_order_seq_cst); /* pairs with the load there */
	}
	return true;
}

/* One that is not the only one. */
void hazard_drop_any(const void *object);

static inline void hazard_drop(const void *object)
{
	struct hazards *h = hazards_own;

	/* most often the only one */
	if (likely(atomic_load_explicit(&h->count, memory_order_relaxed) == 1 &&
		   atomic_load_explicit(&h->held[0], memory_order_relaxed) == object))
		atomic_store_explicit(&h->count, 0, memory_order_release);
	else
		hazard_drop_any(object);
}

/* Holds another object in its place, which cannot be closed before nobody holds the first one. */
void hazard_swap(const void *object, const void *other);

/* The object has been closed by a sequentially consistent store, and is looked at by such a load: until nobody holds it
 * who saw it open. The caller does not hold it. */
void hazard_await(const void *object);

#endif
