/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole pages of a buffer in flight are protected from the program, if UROCE_CHECK_PAGES asks for it.
 * An instruction that touches them faults; the handler notes where it stands, lifts the protection of that buffer, and
 * the instruction is done. Accesses of the adapter lift it as well, and are not noted. */
#ifndef UROCE_CHECK_PAGES_H
#define UROCE_CHECK_PAGES_H

#include "check/request.h"
#include "check/objects.h"

/* Reads UROCE_CHECK_PAGES. Before all others. */
void pages_start(void);
/* Whether pages are protected. */
bool pages_are_taken(void);
/* The request is outstanding: protects its pages. */
void pages_begin(struct request *r) REQUIRES(objects_lock);
/* Its bytes are about to come: lifts the protection; they are in memory: protects again. */
void pages_pause(const struct request *r);
void pages_resume(const struct request *r);
/* The request has ended. True: the program was seen to write to its pages. */
bool pages_end(struct request *r);
/* Lifts the protection of all pages of this memory, for what needs it as it was. */
void pages_lift(uint64_t at, uint64_t length);
/* Lifts all protection, in a child of fork(). */
void pages_forget(void);
/* Reports what was noted. Without locks. */
void pages_tell(void);

#endif
