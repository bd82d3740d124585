/* SPDX-License-Identifier: BSD-2-Clause */
/* Polling: receives and sends, and yields the processor when nothing comes. */
#ifndef UROCE_PROGRESS_POLL_H
#define UROCE_PROGRESS_POLL_H

#include <poll.h>

#include "base/base.h"

struct loop;
struct cq_poller;

/* One full poll: receives, sends and serves timers. `now`: ns, the time. True: something was received or sent. */
bool progress(struct loop *l, uint64_t now);

/* One poll of an empty CQ: sends what waits, receives what has come, serves timers that are due. Never blocks;
 * returns at once if another thread has rx ownership. True: something was received or sent. */
bool loop_progress(void);
/* The same for a thread that polls a CQ and takes completions at once. */
bool loop_progress_for(struct cq_poller *poller);

/* Notes that the thread has slept, or will: its next poll counts as the first, and does not yield. */
void loop_awake(void);

/* The same for a thread that has other work between its calls: never yields. Waiting requests usually leave with the
 * thread's next post, and only now and then here. */
bool loop_look_around(void);

/* This thread of the program has given up its processor by itself, for that long, in ns. */
void loop_yielded(uint64_t took);

#endif
