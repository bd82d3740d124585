/* SPDX-License-Identifier: BSD-2-Clause */
/* Hazard pointers: which objects a thread is using, without a locked instruction. Each thread has a list of the objects
 * that it protects; only that thread writes it.
 *
 * A user first adds the object to its list, then checks that the object is still open. A thread that closes the object
 * first marks it closed, then waits until no list has it. So either the user sees the object closed, or the closing
 * thread sees it in a list. The closing side provides the order between the two (barrier.h). Where it cannot, the count
 * of the list is stored sequentially consistently.
 *
 * A thread drops each hazard pointer itself, soon, and before it ends. A child of fork() inherits those of the thread
 * that called fork(). */
#ifndef UROCE_HAZARD_H
#define UROCE_HAZARD_H

#include <assert.h>

#include "base/barrier.h"

#define HAZARDS 190u /* per thread: those of a tx batch, and of one request */

/* Never freed; when its thread has ended, the next new thread uses it. */
struct hazards {
	_Alignas(CACHE_LINE) _Atomic uint32_t
		count; /* used entries of held[]. Release, as are all stores here: pairs with hazard_await() */
	_Atomic bool taken;
	struct hazards *next;		     /* constant */
	_Atomic(const void *) held[HAZARDS]; /* NULL: dropped, while a later entry is in use */
};

extern _Thread_local struct hazards *hazards_own;

/* Makes the list at the first hazard pointer of a thread. NULL: out of memory. */
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

/* hazard_drop() where the list has other entries. */
void hazard_drop_any(const void *object);

static inline void hazard_drop(const void *object)
{
	struct hazards *h = hazards_own;

	/* the common case: it is the only entry */
	if (likely(atomic_load_explicit(&h->count, memory_order_relaxed) == 1 &&
		   atomic_load_explicit(&h->held[0], memory_order_relaxed) == object))
		atomic_store_explicit(&h->count, 0, memory_order_release);
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
