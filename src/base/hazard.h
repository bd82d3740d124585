/* SPDX-License-Identifier: BSD-2-Clause */
/* Hazard pointers: they protect objects that a thread uses, without a locked instruction. Each thread has a list of
 * such objects; only that thread writes it.
 *
 * A user first adds the object to its list, then checks that the object is still open. A thread that closes the object
 * first marks it closed, then waits until no list has it. So either the user sees the object closed, or the closing
 * thread sees it in a list. The closing side provides the order between the two (barrier.h). If it cannot, the user
 * stores its entry sequentially consistently.
 *
 * A thread drops each hazard pointer itself, soon, and before it ends. A child of fork() inherits those of the thread
 * that called fork(). */
#ifndef UROCE_HAZARD_H
#define UROCE_HAZARD_H

#include <assert.h>

#include "base/barrier.h"

#define HAZARDS 190u /* entries of a thread: for a tx batch, and one request */

/* The list of a thread. Never freed; when the thread has ended, the next new thread uses it. */
struct hazards {
	/* Entry for the common case of one object at a time: it takes two stores. NULL: free. Release, as are all
	 * stores here: pairs with hazard_await() */
	_Alignas(CACHE_LINE) _Atomic(const void *) first;
	_Atomic uint32_t count; /* used entries of held[] */
	_Atomic bool taken;
	struct hazards *next;		     /* constant */
	_Atomic(const void *) held[HAZARDS]; /* NULL: dropped, while a later entry is in use */
};

extern _Thread_local struct hazards *hazards_own;

/* Makes the list at the first hazard pointer of a thread. NULL: out of memory. */
struct hazards *hazards_begin(void);

/* hazard_take() if there is no list yet, the first entry is in use, or there is no barrier. */
bool hazard_take_any(const void *object);

/* Protects an object. False: out of memory. */
static inline bool hazard_take(const void *object)
{
	struct hazards *h = hazards_own;

	if (unlikely(!h || atomic_load_explicit(&h->first, memory_order_relaxed) || !barrier_is_ours()))
		return hazard_take_any(object);
	atomic_store_explicit(&h->first, object, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst); /* pairs with the barrier of hazard_await() */
	return true;
}

/* hazard_drop() of an entry that is not the first. */
void hazard_drop_any(const void *object);

static inline void hazard_drop(const void *object)
{
	struct hazards *h = hazards_own;

	if (likely(atomic_load_explicit(&h->first, memory_order_relaxed) == object))
		atomic_store_explicit(&h->first, NULL, memory_order_release);
	else
		hazard_drop_any(object);
}

/* Replaces `object` by `other`, which cannot be closed while a hazard pointer to `object` exists. */
void hazard_swap(const void *object, const void *other);

/* Waits until no hazard pointer to the object is left that was taken while it was open. The object has been closed by a
 * sequentially consistent store, and users check it by a sequentially consistent load. The caller has no hazard pointer
 * to it. */
void hazard_await(const void *object);

#endif
