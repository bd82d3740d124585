/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread does that polls: it receives and sends, and gives the processor to others when nothing comes. */
#ifndef UROCE_PROGRESS_POLL_H
#define UROCE_PROGRESS_POLL_H

#include <poll.h>

#include "base/base.h"

struct loop;
struct cq_poller;

/* One poll: all of the above. `now` is the time. */
bool progress(struct loop *l, uint64_t now);

/* One poll of an empty CQ: sends what waits, receives what has come, serves timers that are due. Never blocks;
 * returns at once if another thread has rx ownership. True: something was received or sent. */
bool loop_progress(void);
/* The same for a thread that polls a CQ and can take completions at once. */
bool loop_progress_for(struct cq_poller *poller);

/* The thread has slept, or is about to: its next poll is the first, so it gives no time to others yet. */
void loop_awake(void);

/* The same for a thread that does other work between its calls. It never yields. What waits to be sent usually
 * leaves with what the thread sends next, and only now and then here. */
bool loop_look_around(void);

#endif
