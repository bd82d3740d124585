/* SPDX-License-Identifier: BSD-2-Clause */
/* Races between requests of two processes that access the same bytes, of a third or of one of them. The
 * processes of one user and network namespace that look for races share a table of the accesses that they have posted,
 * and of which they do not know yet that they are done. An access races with one of another process in the table that
 * was posted after both processes last heard anything. */
#ifndef UROCE_CHECK_ACROSS_H
#define UROCE_CHECK_ACROSS_H

#include "check/request.h"
#include "check/objects.h"

/* Finds or makes the table. Without one, nothing is looked for. Not under a lock. `lock_file` opens a file for the lock
 * of this user's processes that do so; a negative number: there is none. Only the first call has an effect. */
void across_start(int (*lock_file)(void));
/* The program may know now that requests of other processes are done. */
void across_heard(void) REQUIRES(objects_lock);
/* The request is about to be posted, with these accesses. The number of this process is `owner`. */
void across_post(struct request *r, const struct request_target *t, int count, uint32_t owner) REQUIRES(objects_lock);
/* The request writes to memory of the process of that number, which may see that. */
void across_told(uint32_t owner) REQUIRES(objects_lock);
/* The request is not outstanding any more. */
void across_end(const struct request *r) REQUIRES(objects_lock);
/* Reports races that were found. Without locks. */
void across_tell(void);
/* The process ends: reports races of requests that are still outstanding. Without locks. */
void across_finish(void);

#endif
