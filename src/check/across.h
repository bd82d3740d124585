/* SPDX-License-Identifier: BSD-2-Clause */
/* Races between requests of different processes that access the same bytes. The processes of one user and network
 * namespace that look for races share a table of the accesses that they have posted and that may still be
 * outstanding. An access races with one of another process in the table that was posted after both processes last
 * heard anything. */
#ifndef UROCE_CHECK_ACROSS_H
#define UROCE_CHECK_ACROSS_H

#include "check/request.h"
#include "check/objects.h"

/* Finds or creates the table; without one, such races are not looked for. `lock_file` opens the lock file of this
 * user's processes, or returns a negative number. Only the first call has an effect. Without locks. */
void across_start(int (*lock_file)(void));
/* Notes that the program may know now that requests of other processes are done. */
void across_heard(void) REQUIRES(objects_lock);
/* Enters the accesses of a request that is about to be posted. `owner`: number of this process. */
void across_post(struct request *r, const struct request_target *t, int count, uint32_t owner) REQUIRES(objects_lock);
/* Notes that a request writes to memory of process `owner`, which may see the write. */
void across_told(uint32_t owner) REQUIRES(objects_lock);
/* Removes the accesses of a request that is no longer outstanding. */
void across_end(const struct request *r) REQUIRES(objects_lock);
/* Reports races that were found. Without locks. */
void across_tell(void);
/* Reports races of requests that are still outstanding when the process ends. Without locks. */
void across_finish(void);

#endif
