/* SPDX-License-Identifier: BSD-2-Clause */
/* A copy of this process: without handlers of fork(2), and without a signal to the parent when it ends. For handlers of
 * signals. */
#ifndef UROCE_BASE_COPY_PROCESS_H
#define UROCE_BASE_COPY_PROCESS_H

#include <sys/types.h>

/* clone(2) by a name that ThreadSanitizer does not put its own before: that waits for locks which it holds itself when
 * it aborts the program at a race. */
extern int __clone(int (*run)(void *), void *stack, int flags, void *arg, ...);

/* Runs `run` in a copy, on the stack that ends at `stack_end`. Its process id, or -1 with errno; wait for it with
 * __WALL. */
static inline pid_t copy_process(int (*run)(void *), void *stack_end, void *arg)
{
	return __clone(run, stack_end, 0, arg);
}

#endif
