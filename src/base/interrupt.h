/* SPDX-License-Identifier: BSD-2-Clause */
/* Ctrl-C (SIGINT) of a program that has no handler for it: `uroce explain` says what the process waits for before it
 * ends, if UROCE_EXPLAIN names that command. A program that computes goes on meanwhile, since the thread that the
 * signal comes to may hold a lock that the answer needs; one that waits in a system call waits on, and does not see
 * EINTR. */
#ifndef UROCE_BASE_INTERRUPT_H
#define UROCE_BASE_INTERRUPT_H

#include <stdbool.h>

/* Installs a handler, unless SIGINT has one or is ignored. Any thread, any number of times. */
void interrupt_start(void);

/* For handlers of SIGINT, with the context that they get. True if the command is asked now: the signal comes again when
 * it has answered. False for that second one, in a child of fork(2), and without UROCE_EXPLAIN. */
bool interrupt_defer(const void *context);

#endif
