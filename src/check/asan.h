/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs built with AddressSanitizer, or run under valgrind. From the post to the poll, the memory to which bytes
 * of a request come belongs to the adapter: the sanitizer stops at, or reports, an instruction that reads it or
 * writes to it. */
#ifndef UROCE_CHECK_ASAN_H
#define UROCE_CHECK_ASAN_H

#include "check/queues.h"
#include "check/request.h"
#include "check/objects.h"

/* Detects the sanitizer. Without one, the other functions do nothing. */
void asan_start(void);
/* True if the program has AddressSanitizer or runs under valgrind. */
bool asan_is_there(void);
/* True if the program runs under valgrind. */
bool asan_is_memcheck(void);
/* Reports memory of a request that belongs to no object of the program. Called before the post and after the digest,
 * so its addresses are the program's, not those that a region has defined. */
void asan_look(struct request *r);
/* Gives back memory of other requests that the adapter is about to read or write for this one. */
void asan_need(const struct request *r) REQUIRES(objects_lock);
/* Takes the memory of an outstanding request from the program, unless another request of the queues has it as well.
 * asan_give() gives it back when the bytes come; asan_take() takes it again when they are in memory. */
void asan_begin(const struct queues *q, struct request *r) REQUIRES(objects_lock);
void asan_take(struct request *r);
void asan_give(struct request *r);

#endif
