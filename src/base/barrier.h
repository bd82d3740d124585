/* SPDX-License-Identifier: BSD-2-Clause */
/* Order made by the rare side: a thread that stores to one place and then looks at another needs a locked instruction
 * for that, 10 to 20 ns. Where the kernel has membarrier(2), the side that seldom comes makes the processors of the
 * others do it instead, and the others do with plain stores and loads. Any thread may call. */
#ifndef UROCE_BARRIER_H
#define UROCE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/base.h"
#include "base/tsan.h"

/* ThreadSanitizer knows nothing of membarrier(2) */
#ifdef UNDER_TSAN
#define BARRIER_KNOWN false
#else
#define BARRIER_KNOWN true
#endif

/* Set once, by barrier_prepare(). Relaxed: who sees it too late does what is right without */
extern __attribute__((visibility("hidden"))) _Atomic bool barrier_works;

/* Whether this process's threads may leave their order to barrier_here(). */
static inline bool barrier_is_ours(void)
{
	return BARRIER_KNOWN && likely(atomic_load_explicit(&barrier_works, memory_order_relaxed));
}

/* Asks the kernel for it. A child of fork() has it too. */
void barrier_prepare(void);

/* Every thread of this process that runs has made a full barrier in the meantime. False: it has not. */
bool barrier_here(void);

/* The same among all processes that have called barrier_join(). */
bool barrier_join(void);
void barrier_everywhere(void);

#endif
