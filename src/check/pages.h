/* SPDX-License-Identifier: BSD-2-Clause */
/* Page protection of buffers in flight, if UROCE_CHECK_PAGES asks for it. An instruction of the program that touches
 * such a page faults; the handler notes its stack, lifts the protection of that buffer, and the instruction is
 * repeated. Accesses of the adapter lift the protection too, and are not noted. */
#ifndef UROCE_CHECK_PAGES_H
#define UROCE_CHECK_PAGES_H

#include "check/request.h"
#include "check/objects.h"

/* Reads UROCE_CHECK_PAGES. Before all other functions. */
void pages_start(void);
/* True if pages are protected. */
bool pages_are_taken(void);
/* Protects the pages of an outstanding request. */
void pages_begin(struct request *r) REQUIRES(objects_lock);
/* Lifts the protection before the bytes of a request come; protects again when they are in memory. */
void pages_pause(const struct request *r);
void pages_resume(const struct request *r);
/* Ends the protection. True if the program wrote to the pages. */
bool pages_end(struct request *r);
/* Lifts the protection of all pages in a range. */
void pages_lift(uint64_t at, uint64_t length);
/* Lifts all protection in a child of fork(). */
void pages_forget(void);
/* Reports noted accesses. Without locks. */
void pages_tell(void);

#endif
