/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: a program that is built with AddressSanitizer, or runs under valgrind. Where a request stores what it
 * brings, is no memory of the program from the post to the poll: these stop at the instruction that reads it or writes
 * to it, or report it. */
#ifndef UROCE_CHECK_ASAN_H
#define UROCE_CHECK_ASAN_H

#include "check/queues.h"
#include "check/request.h"
#include "check/objects.h"

/* Looks whether the program has one of them; without it, the others do nothing. */
void asan_start(void);
bool asan_is_there(void);
/* A request is about to be posted, and its digest has been taken: so its address is one of the program, and not one
 * that the region has defined. Does all of its memory belong to an object of the program? */
void asan_look(struct request *r);
/* The adapter is about to read or write its memory: other requests that have taken that give it back. */
void asan_need(const struct request *r) REQUIRES(objects_lock);
/* It is outstanding, one of these queues: its memory is taken from the program, unless another request of the queues
 * has it as well. It is given back when the bytes come, and taken again when they are there. */
void asan_begin(const struct queues *q, struct request *r) REQUIRES(objects_lock);
void asan_take(struct request *r);
void asan_give(struct request *r);

#endif
