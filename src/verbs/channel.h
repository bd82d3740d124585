/* SPDX-License-Identifier: BSD-2-Clause */
/* A completion channel: a queue of CQs that have events, and an eventfd that is readable while the queue is not empty.
 * ibv_create_comp_channel() creates it, ibv_destroy_comp_channel() frees it. `lock` is a leaf lock; it guards the
 * queue, and `events`, `waiting` and `fetched` of the CQs of the channel. */
#ifndef UROCE_CHANNEL_H
#define UROCE_CHANNEL_H

#include "base/list.h"
#include "base/lock.h"
#include "object/cq.h"

struct channel {
	struct ibv_comp_channel base; /* the application's handle; must be first. refcnt: the CQs that use it */
	struct lock lock;
	struct list ready GUARDED_BY(&lock);
};

/* A CQ starts to use the channel, and stops. */
void channel_join(struct channel *ch) EXCLUDES(ch->lock);
void channel_leave(struct channel *ch) EXCLUDES(ch->lock);

/* Drops the CQ's events that are not fetched, then blocks until its fetched events are acknowledged. */
void channel_forget(struct channel *ch, struct cq *cq) EXCLUDES(ch->lock);

#endif
