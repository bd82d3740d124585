/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleeping until a condition of one rsocket is true. */
#ifndef UROCE_RSOCKET_AWAIT_H
#define UROCE_RSOCKET_AWAIT_H

#include "rsocket/rsocket.h"

/* The next completion calls rsocket_wake(). With the lock or without. */
void rsocket_arm(struct rsocket *rs);
/* Sleeps until test(rs), called with the lock; releases the lock meanwhile. `until`: ns of clock_now(), or NEVER. 0,
 * -EAGAIN after `until`, or -EINTR. A cancellation point: the caller has one reference, which is put then, and nothing
 * else to undo. */
int rsocket_await(struct rsocket *rs, bool (*test)(struct rsocket *rs), uint64_t until) REQUIRES(rs->lock);
/* The same without being a cancellation point, for shutdown(2) and close(2). */
int rsocket_await_firmly(struct rsocket *rs, bool (*test)(struct rsocket *rs), uint64_t until) REQUIRES(rs->lock);
/* Processes completions and waits for the test, if the call may sleep. 0 or -errno. */
int rsocket_ready(struct rsocket *rs, bool (*test)(struct rsocket *rs), int flags, uint64_t until) REQUIRES(rs->lock);
/* clock_now() in so many ms; 0 or less: NEVER. */
uint64_t rsocket_until(int ms);
/* loop_progress() for a call that may be repeated without end: a thread that waits for the lock gets it meanwhile. */
void rsocket_progress(struct rsocket *rs) REQUIRES(rs->lock);

#endif
