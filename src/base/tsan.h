/* SPDX-License-Identifier: BSD-2-Clause */
/* Annotations for ThreadSanitizer of order that it cannot see, since a second mapping of the memory or the kernel
 * carries it from one thread of this process to another. Empty in other builds. */
#ifndef UROCE_TSAN_H
#define UROCE_TSAN_H

#include <stdbool.h>
#include <stdint.h>

/* True if the program has ThreadSanitizer, and `uroce check --only races` shows it stores of peers in its memory
 * (check/peers.h): local peers then use UDP, so that their stores are known. Constant after the constructors of the
 * library. */
extern bool tsan_sees_peers __attribute__((visibility("hidden")));

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

/* Orders all before tsan_release(key) in one thread before all after tsan_acquire(key) in another. */
static inline void tsan_release(void *key)
{
	__tsan_release(key);
}

static inline void tsan_acquire(void *key)
{
	__tsan_acquire(key);
}

/* A key for a number (an inode, a QP number); several numbers share one key. */
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
