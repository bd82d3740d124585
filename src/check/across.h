/* SPDX-License-Identifier: BSD-2-Clause */
/* Races between requests of different processes that access the same bytes. The processes of one user and network
 * namespace that look for races share a table of the last accesses that they have posted, and of a vector clock of each
 * process: until when it may know the accesses of each other process to be done. The clocks travel with messages and
 * WRITEs. An access races with one of another process that is later than this one's clock. */
#ifndef UROCE_CHECK_ACROSS_H
#define UROCE_CHECK_ACROSS_H

#include "check/request.h"
#include "check/objects.h"

/* Finds or creates the table; without one, such races are not looked for. `lock_file` opens the lock file of this
 * user's processes, or returns a negative number. Only the first call has an effect. Without locks. */
void across_start(int (*lock_file)(void));
/* Notes that the program may know now that all requests of other processes so far are done. */
void across_heard(void) REQUIRES(objects_lock);
/* Notes that a message of process `owner` was polled: the program may know what that process knew. */
void across_heard_from(uint32_t owner) REQUIRES(objects_lock);
/* Notes the number of this process. */
void across_own(uint32_t owner) REQUIRES(objects_lock);
/* Enters the accesses of a request that is about to be posted. */
void across_post(struct request *r, const struct request_target *t, int count) REQUIRES(objects_lock);
/* Notes that a request of queue pair `qpn` sends to process `owner`, which may know then what this one knows: at once
 * if it writes to memory, as the other may see that; else by the poll of the message. */
void across_sends(uint32_t owner, uint32_t qpn, bool writes) REQUIRES(objects_lock);
/* Notes that the completion of a request was polled. */
void across_done(struct request *r) REQUIRES(objects_lock);
/* Removes the accesses of a request that was not posted, or whose queue pair has ended. */
void across_end(const struct request *r) REQUIRES(objects_lock);
/* Reports races that were found. Without locks. */
void across_tell(void);
/* Reports races of requests that are still outstanding when the process ends. Without locks. */
void across_finish(void);

#endif
