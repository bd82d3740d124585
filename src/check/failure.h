/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair that has failed, until the program itself changes its state: whether it has looked at the status of what
 * it polled. */
#ifndef UROCE_CHECK_FAILURE_H
#define UROCE_CHECK_FAILURE_H

#include <infiniband/verbs.h>

#include "check/objects.h"

/* This thread polls a CQ. */
void failure_polls(void);
/* This thread has polled a completion with that error. Without locks. */
void failure_note(uint32_t qpn, enum ibv_wc_status status);
/* Whether this thread has polled the error, and polled again since: then it has seen the status, or ignores it. */
bool failure_is_ignored(const struct queues *q) REQUIRES(objects_lock);

#endif
