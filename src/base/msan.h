/* SPDX-License-Identifier: BSD-2-Clause */
/* MemorySanitizer of the program. It knows which bytes are initialised by watching the stores of code that was compiled
 * for it, so it is told of those that uroce makes in the program's memory. Where there is none, msan_wrote() costs a
 * branch, and is on no path of data. Any thread. */
#ifndef UROCE_MSAN_H
#define UROCE_MSAN_H

#include "base/base.h"

/* NULL: there is none. Constant after the constructors of the library. */
extern void (*msan_unpoison)(const volatile void *at, size_t size) __attribute__((visibility("hidden")));

static inline bool msan_is_there(void)
{
	return unlikely(msan_unpoison);
}

/* These bytes of the program's are initialised. */
static inline void msan_wrote(const volatile void *at, size_t size)
{
	if (unlikely(msan_unpoison) && at)
		msan_unpoison(at, size);
}

/* Uninitialised as seen from the program: it may not read them. */
void msan_spoil(const volatile void *at, size_t size);
/* The first byte that the program has not initialised; NULL: all are, or there is no MemorySanitizer. */
const char *msan_first_unset(const volatile void *at, size_t size);
/* A copy is as initialised as its source. */
void msan_copied(const volatile void *to, const volatile void *from, size_t size);
/* Between the two, this thread runs code of other libraries, whose stores MemorySanitizer has not seen. */
void msan_pause(void);
void msan_resume(void);

#endif
