/* SPDX-License-Identifier: BSD-2-Clause */
/* MemorySanitizer of the program, which learns of initialised bytes by the stores of code that was compiled for it, so
 * uroce tells it of its own stores in the program's memory. Without it, msan_wrote() costs a branch, and is on no path
 * of data. Any thread may call. */
#ifndef UROCE_MSAN_H
#define UROCE_MSAN_H

#include "base/base.h"

/* The program's function; NULL: the program has no MemorySanitizer. Constant after the constructors of the library. */
extern void (*msan_unpoison)(const volatile void *at, size_t size) __attribute__((visibility("hidden")));

static inline bool msan_is_there(void)
{
	return unlikely(msan_unpoison);
}

/* Marks bytes of the program as initialised. */
static inline void msan_wrote(const volatile void *at, size_t size)
{
	if (unlikely(msan_unpoison) && at)
		msan_unpoison(at, size);
}

/* Marks bytes as uninitialised: the program may not read them. */
void msan_spoil(const volatile void *at, size_t size);
/* The first byte that the program has not initialised; NULL: all are, or there is no MemorySanitizer. */
const char *msan_first_unset(const volatile void *at, size_t size);
/* Marks a copy as initialised where its source is. */
void msan_copied(const volatile void *to, const volatile void *from, size_t size);
/* Called before and after this thread runs code of other libraries, whose stores MemorySanitizer does not see. */
void msan_pause(void);
void msan_resume(void);

#endif
