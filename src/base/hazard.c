/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/hazard.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fork.h"
#include "base/tuned.h"
#include "base/yield.h"

_Thread_local struct hazards *hazards_own;

static _Atomic(struct hazards *) all; /* list of all; entries are only added */
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void give_back(void *arg)
{
	struct hazards *h = arg;

	/* a cancelled thread may have left entries; release pairs with hazard_await() */
	atomic_store_explicit(&h->first, NULL, memory_order_release);
	atomic_store_explicit(&h->count, 0, memory_order_release);
	hazards_own = NULL; /* later use in this thread takes a list again */
	/* release pairs with hazard_reuse() */
	atomic_store_explicit(&h->taken, false, memory_order_release);
}

/* Frees the lists of the parent's other threads, which do not exist in a child. */
static void hazard_in_child(void)
{
	for (struct hazards *h = atomic_load_explicit(&all, memory_order_relaxed); h; h = h->next)
		if (h != hazards_own) {
			atomic_store_explicit(&h->first, NULL, memory_order_relaxed);
			atomic_store_explicit(&h->count, 0, memory_order_relaxed);
			atomic_store_explicit(&h->taken, false, memory_order_relaxed);
		}
}

static void prepare(void)
{
	static const struct fork_handlers handlers = {.in_child = hazard_in_child};

	pthread_key_create(&key, give_back);
	fork_watch(FORK_HAZARD, &handlers);
}

static struct hazards *hazard_reuse(void)
{
	struct hazards *h = atomic_load_explicit(&all, memory_order_acquire);
	bool taken;

	for (; h; h = h->next) {
		taken = false;
		/* acquire pairs with give_back() */
		if (atomic_compare_exchange_strong_explicit(&h->taken, &taken, true, memory_order_acquire,
							    memory_order_relaxed))
			break;
	}
	return h;
}

/* A list for a thread that finds no memory. Without one the thread would take a region for one that does not exist, and
 * the peer's access would fail. */
static struct hazards *hazard_spare(void)
{
	static struct hazards spare[HAZARD_SPARES];
	static _Atomic uint32_t used;
	/* relaxed: each is handed out once, and published by hazard_make() */
	uint32_t n = atomic_load_explicit(&used, memory_order_relaxed);

	while (n < HAZARD_SPARES &&
	       !atomic_compare_exchange_weak_explicit(&used, &n, n + 1, memory_order_relaxed, memory_order_relaxed))
		;
	return n < HAZARD_SPARES ? &spare[n] : NULL;
}

static struct hazards *hazard_make(void)
{
	struct hazards *h = aligned_alloc(CACHE_LINE, sizeof(*h)) ?: hazard_spare();

	if (!h)
		return NULL;
	memset(h, 0, sizeof(*h));
	atomic_init(&h->taken, true);
	h->next = atomic_load_explicit(&all, memory_order_relaxed);
	/* sequentially consistent, with hazard_await(): either the closing thread sees the list, or this thread sees
	 * that the object is closed */
	while (!atomic_compare_exchange_weak_explicit(&all, &h->next, h, memory_order_seq_cst, memory_order_relaxed))
		;
	return h;
}

struct hazards *hazards_begin(void)
{
	pthread_once(&once, prepare);
	hazards_own = hazard_reuse() ?: hazard_make();
	if (hazards_own)
		pthread_setspecific(key, hazards_own);
	return hazards_own;
}

bool hazard_take_any(const void *object)
{
	struct hazards *h = hazards_own ?: hazards_begin();
	uint32_t n;

	if (unlikely(!h))
		return false;
	if (!atomic_load_explicit(&h->first, memory_order_relaxed)) {
		/* the list is new, or there is no barrier: pairs with hazard_is_first() */
		atomic_store_explicit(&h->first, object, memory_order_seq_cst);
		return true;
	}
	n = atomic_load_explicit(&h->count, memory_order_relaxed);
	assert(n < HAZARDS);
	atomic_store_explicit(&h->held[n], object, memory_order_release);
	if (barrier_is_ours()) {
		atomic_store_explicit(&h->count, n + 1, memory_order_release);
		atomic_signal_fence(memory_order_seq_cst); /* pairs with the barrier of hazard_await() */
	} else {
		atomic_store_explicit(&h->count, n + 1, memory_order_seq_cst); /* pairs with hazard_is_held() */
	}
	return true;
}

/* Position of the object in the list of this thread. */
static uint32_t hazard_find(const struct hazards *h, const void *object)
{
	uint32_t i = atomic_load_explicit(&((struct hazards *)h)->count, memory_order_relaxed);

	do
		assert(i > 0);
	while (atomic_load_explicit(&((struct hazards *)h)->held[--i], memory_order_relaxed) != object);
	return i;
}

void hazard_drop_any(const void *object)
{
	struct hazards *h = hazards_own;
	uint32_t n = atomic_load_explicit(&h->count, memory_order_relaxed), i = hazard_find(h, object);

	if (unlikely(i + 1 < n)) {
		atomic_store_explicit(&h->held[i], NULL, memory_order_release);
		return;
	}
	while (i && unlikely(!atomic_load_explicit(&h->held[i - 1], memory_order_relaxed)))
		i--;
	atomic_store_explicit(&h->count, i, memory_order_release);
}

void hazard_swap(const void *object, const void *other)
{
	struct hazards *h = hazards_own;

	/* the object may have several entries: any will do */
	if (atomic_load_explicit(&h->first, memory_order_relaxed) == object)
		atomic_store_explicit(&h->first, other, memory_order_release);
	else
		atomic_store_explicit(&h->held[hazard_find(h, object)], other, memory_order_release);
}

/* Sequentially consistent, with hazard_take_any() where there is no barrier; acquire pairs with hazard_drop(): all use
 * of the object is over. */
static bool hazard_is_first(struct hazards *h, const void *object)
{
	return atomic_load_explicit(&h->first, memory_order_seq_cst) == object;
}

static bool hazard_is_held(struct hazards *h, uint32_t i, const void *object)
{
	return i < atomic_load_explicit(&h->count, memory_order_seq_cst) &&
	       atomic_load_explicit(&h->held[i], memory_order_acquire) == object;
}

/* Makes visible the stores of other threads to their lists, if these threads checked the object before it was
 * closed. */
static void see_all(void)
{
	struct timespec t = {.tv_nsec = HAZARD_LINGER};

	if (barrier_is_ours() && !barrier_here())
		nanosleep(&t, NULL); /* membarrier() has been forbidden since start-up */
}

void hazard_await(const void *object)
{
	struct hazards *h = atomic_load_explicit(&all, memory_order_seq_cst);

	if (!h || (h == hazards_own && !h->next))
		return; /* no other thread has ever taken a hazard pointer */
	see_all();
	for (; h; h = h->next) {
		while (hazard_is_first(h, object))
			processor_yield(); /* lasts for the time of one packet */
		for (uint32_t i = 0; i < atomic_load_explicit(&h->count, memory_order_seq_cst); i++)
			while (hazard_is_held(h, i, object))
				processor_yield();
	}
}
