/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the program has looked at the status of completions of a failed queue pair. Holds until the program
 * changes the state of the queue pair. */
#ifndef UROCE_CHECK_FAILURE_H
#define UROCE_CHECK_FAILURE_H

#include <infiniband/verbs.h>

#include "check/objects.h"

/* Notes that this thread polls a CQ. */
void failure_polls(void);
/* Notes that this thread has polled a completion with an error. Without locks. */
void failure_note(uint32_t qpn, enum ibv_wc_status status, uint32_t vendor_err);
/* True if this thread has polled the error, and polled again since: the status was seen, or is ignored. */
bool failure_is_ignored(const struct queues *q) REQUIRES(objects_lock);

#endif
