/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: whole pages of a buffer in flight are protected from the program, if UROCE_CHECK_PAGES asks for it.
 * An instruction that touches them faults; the handler notes where it stands, lifts the protection of that buffer, and
 * the instruction is done. Accesses of the adapter lift it as well, and are not noted. */
#ifndef UROCE_CHECK_PAGES_H
#define UROCE_CHECK_PAGES_H

#include "check/request.h"
#include "check/objects.h"

void pages_start(void);
bool pages_are_taken(void);
/* The request is outstanding. */
void pages_begin(struct request *r) REQUIRES(objects_lock);
/* What it brings is about to come; is there. */
void pages_pause(const struct request *r);
void pages_resume(const struct request *r);
/* It has ended. True: the program was seen to write there. */
bool pages_end(struct request *r);
/* Something needs this memory as it was. */
void pages_lift(uint64_t at, uint64_t length);
/* In a child: all of it. */
void pages_forget(void);
/* Reports what was noted. Without locks. */
void pages_tell(void);

#endif
