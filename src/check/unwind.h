/* SPDX-License-Identifier: BSD-2-Clause */
/* The caller's stack, by the unwind tables of its code. What a table says of one return address never changes, so it
 * is kept by return address: a frame costs two loads. Any thread, without locks. */
#ifndef UROCE_CHECK_UNWIND_H
#define UROCE_CHECK_UNWIND_H

#include "base/base.h"

/* Return addresses of this thread, innermost first, among them those of the calling functions here. Returns their
 * number, or 0 if a table of the stack says what is not understood: then backtrace(3) is the one to ask. */
uint32_t unwind(void **frame, uint32_t most);
/* The same of a thread that was interrupted, by a copy of its registers and of the bytes from its stack pointer on.
 * The first of `frame` is where it was. */
struct unwind_copy {
	uintptr_t pc, sp, fp;
	const char *bytes;
	size_t length;
};
uint32_t unwind_copied(const struct unwind_copy *copy, void **frame, uint32_t most);
/* Forgets what is kept if code was unloaded since the last call. */
void unwind_refresh(void);
/* Finds the reader of the tables. Before all other functions. */
void unwind_start(void);

#endif
