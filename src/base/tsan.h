/* SPDX-License-Identifier: BSD-2-Clause */
/* Order that ThreadSanitizer cannot see, since a second mapping of the memory or the kernel carried it from one thread
 * of this process to another. Nothing in other builds. */
#ifndef UROCE_TSAN_H
#define UROCE_TSAN_H

#include <stdint.h>

#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif

#ifdef UNDER_TSAN
void __tsan_acquire(void *key);
void __tsan_release(void *key);
__attribute__((weak)) char tsan_keys[4096];

/* What came before this happened before ... */
static inline void tsan_release(void *key)
{
	__tsan_release(key);
}

/* ... what follows this in a thread that gives the same key. */
static inline void tsan_acquire(void *key)
{
	__tsan_acquire(key);
}

/* The key of an inode, a QP number or the like; a few share one. */
static inline void *tsan_key(uint64_t number)
{
	return &tsan_keys[number % sizeof(tsan_keys)];
}
#else
static inline void tsan_release(void *key)
{
	(void)key;
}
static inline void tsan_acquire(void *key)
{
	(void)key;
}
static inline void *tsan_key(uint64_t number)
{
	(void)number;
	return (void *)0;
}
#endif

#endif
