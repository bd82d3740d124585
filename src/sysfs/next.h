/* SPDX-License-Identifier: BSD-2-Clause */
/* The C library's functions that liburoce-sysfs.so interposes. Any thread may call. */
#ifndef UROCE_SYSFS_NEXT_H
#define UROCE_SYSFS_NEXT_H

#include <dlfcn.h>
#include <stdatomic.h>

#define PUBLIC __attribute__((visibility("default")))

/* The next library's function of that name: the C library's, unless another preload has one. Looked up at first use;
 * two threads that do so at once store the same. */
#define NEXT_AS(name, find)                                                                                 \
	({                                                                                                  \
		static _Atomic(void *) next_;                                                               \
		void *found_ = atomic_load_explicit(&next_, memory_order_relaxed); /* it is all there is */ \
		if (!found_) {                                                                              \
			found_ = find;                                                                      \
			atomic_store_explicit(&next_, found_, memory_order_relaxed);                        \
		}                                                                                           \
		(typeof(&name))found_;                                                                      \
	})
#define NEXT(name) NEXT_AS(name, dlsym(RTLD_NEXT, #name))

#endif
