/* SPDX-License-Identifier: BSD-2-Clause */
/* The libraries that liburoce-through.so stands in front of. Any thread may call. */
#ifndef UROCE_THROUGH_NEXT_H
#define UROCE_THROUGH_NEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The function of the next library; the process ends if there is none. */
void *through_next(const char *name, const char *version);
#define NEXT(name, version)                                                            \
	({                                                                             \
		static _Atomic(void *) next_##name;                                    \
		void *n_ = atomic_load_explicit(&next_##name, memory_order_relaxed);   \
                                                                                       \
		if (!n_) {                                                             \
			n_ = through_next(#name, version);                             \
			atomic_store_explicit(&next_##name, n_, memory_order_relaxed); \
		}                                                                      \
		(typeof(&(name)))n_;                                                   \
	})

#define PUBLIC __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)
/* The caller is neither librdmacm nor libibverbs: these make contexts and domains for themselves, and keep them; so may
 * what is behind these calls. */
bool through_is_of_program(const void *caller);

#endif
