/* SPDX-License-Identifier: BSD-2-Clause */
/* A completion channel: a queue of CQs that have events, and an eventfd that is readable while it is not
 * empty. Made and freed by ibv_create/destroy_comp_channel(). `lock` is a leaf; it guards the queue, and
 * `events`, `waiting` and `fetched` of the CQs that use the channel. */
#ifndef UROCE_CHANNEL_H
#define UROCE_CHANNEL_H

#include "base/list.h"
#include "base/lock.h"
#include "object/cq.h"

struct channel {
	struct ibv_comp_channel base; /* what the application holds: first. refcnt: the CQs that use it */
	struct lock lock;
	struct list ready GUARDED_BY(&lock);
};

/* A CQ starts and stops using the channel. */
void channel_join(struct channel *ch) EXCLUDES(ch->lock);
void channel_leave(struct channel *ch) EXCLUDES(ch->lock);

/* Drops the CQ's events that nobody has fetched, then waits until those fetched have been acknowledged. */
void channel_forget(struct channel *ch, struct cq *cq) EXCLUDES(ch->lock);

#endif
