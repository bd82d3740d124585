/* SPDX-License-Identifier: BSD-2-Clause */
/* Hardware breakpoints on the first and last bytes that a request brings, from its post to its poll: an instruction of
 * the program that reads or writes them is known by its stack, in the thread that posted and some others. The kernel
 * provides them by perf events, without a signal, and the program does what it does without them. Any thread. */
#ifndef UROCE_CHECK_WATCH_H
#define UROCE_CHECK_WATCH_H

#include "check/objects.h"
#include "check/request.h"

/* Finds out whether this machine has them. Before all other functions. */
void watch_start(void);
/* Watches nothing more: in a child of fork(). */
void watch_forget(void);
/* Ends the watch of memory that a request which is about to be posted uses as well. */
void watch_need(const struct request *r) REQUIRES(objects_lock);
/* Watches the bytes of a request that this thread posts or has just posted, if it is among those that are looked at and
 * no other request has the memory. */
void watch_begin(struct request *r) REQUIRES(objects_lock);
/* Takes note of accesses so far. Called when the bytes of the request are in memory. */
void watch_look(struct request *r) REQUIRES(objects_lock);
/* Ends the watch; r->touched is the stack of the program's first access, or NULL. */
void watch_end(struct request *r) REQUIRES(objects_lock);
/* Watches a datagram that this thread has polled, with the GRH before its payload. Without locks. */
void watch_datagram(const struct request *r);
/* The program is done with this memory: what it looked at there is known. */
void watch_settle(uint64_t at, uint64_t length) REQUIRES(objects_lock);
/* Reports what watch_settle() has found. Without locks. */
void watch_tell(void);
/* The same at the end of the process. */
void watch_finish(void);

#endif
