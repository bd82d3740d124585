/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that is built with AddressSanitizer, or runs under valgrind. The memory to which bytes of a request come is
 * not the program's from the post to the poll: the sanitizer stops at an instruction that reads it or writes to it, or
 * reports it. */
#ifndef UROCE_CHECK_ASAN_H
#define UROCE_CHECK_ASAN_H

#include "check/queues.h"
#include "check/request.h"
#include "check/objects.h"

/* Looks whether the program has one of them; without it, the others do nothing. */
void asan_start(void);
/* Whether the program has one of them. */
bool asan_is_there(void);
/* The request is about to be posted, and its digest has been taken: so its addresses are the program's, and not those
 * that a region has defined. Reports memory that belongs to no object of the program. */
void asan_look(struct request *r);
/* The adapter is about to read or write the memory of the request: others that have taken it give it back. */
void asan_need(const struct request *r) REQUIRES(objects_lock);
/* The request is outstanding in these queues: takes its memory from the program, unless another request of the queues
 * has it as well. asan_give() gives it back when the bytes come, and asan_take() takes it again when they are in
 * memory. */
void asan_begin(const struct queues *q, struct request *r) REQUIRES(objects_lock);
void asan_take(struct request *r);
void asan_give(struct request *r);

#endif
