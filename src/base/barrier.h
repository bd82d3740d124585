/* SPDX-License-Identifier: BSD-2-Clause */
/* Asymmetric memory barriers. A thread that stores to one place and then loads from another needs a locked instruction
 * to keep that order: 10 to 20 ns. Where the kernel has membarrier(2), the rare side makes all processors execute the
 * barrier, and the common side needs only plain stores and loads. Any thread may call. */
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

/* Set once, by barrier_prepare(). Relaxed: a stale false only costs an explicit barrier. */
extern __attribute__((visibility("hidden"))) _Atomic bool barrier_works;

/* True if the threads of this process can leave their order to barrier_here(). */
static inline bool barrier_is_ours(void)
{
	return BARRIER_KNOWN && likely(atomic_load_explicit(&barrier_works, memory_order_relaxed));
}

/* Registers the process for membarrier(2). A child of fork() inherits it. */
void barrier_prepare(void);

/* Makes every running thread of this process execute a full barrier. False: not done. */
bool barrier_here(void);

/* The same for all processes that have called barrier_join(). */
bool barrier_join(void);
void barrier_everywhere(void);

#endif
