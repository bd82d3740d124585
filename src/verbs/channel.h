/* SPDX-License-Identifier: BSD-2-Clause */
/* A completion channel: a queue of CQs that have events, an eventfd that is readable while the queue is not empty, and
 * an epoll instance with it, which the program knows (progress/waitfd.h). ibv_create_comp_channel() creates it,
 * ibv_destroy_comp_channel() frees it. `lock` guards the fields below it, and `events`, `waiting` and `fetched` of the
 * CQs of the channel. */
#ifndef UROCE_CHANNEL_H
#define UROCE_CHANNEL_H

#include "base/list.h"
#include "base/lock.h"
#include "loop/waiting.h"
#include "progress/waitfd.h"
#include "object/cq.h"

struct cq_front;

struct channel {
	struct ibv_comp_channel base; /* the application's handle; must be first. refcnt: the CQs that use it */
	struct waitfd waitfd;	      /* of base.fd */
	int events;		      /* the eventfd. Constant */
	_Atomic uint32_t found; /* calls of ibv_get_cq_event(), since the last that waited, for whose event the thread
				   had slept elsewhere: FOUND_SURE. Relaxed: a hint */
	struct lock lock;
	struct list ready GUARDED_BY(&lock);
	struct list cqs GUARDED_BY(&lock); /* cq_front.of_channel */
	bool told GUARDED_BY(&lock);	   /* the eventfd has been written */
};

/* A CQ starts to use the channel, and stops, after channel_forget(). */
void channel_join(struct channel *ch, struct cq_front *cq) EXCLUDES(ch->lock);
void channel_leave(struct channel *ch) EXCLUDES(ch->lock);

/* A CQ of the channel was armed, so the thread is likely to wait next. Receives, and sends what waits. */
void channel_arm(struct channel *ch);

/* Drops the CQ's events that are not fetched, then blocks until its fetched events are acknowledged. */
void channel_forget(struct channel *ch, struct cq *cq) EXCLUDES(ch->lock);

/* Member of hca_ops: an armed CQ has got a completion. Its channel, if it has one, gets an event. */
void channel_cq_event(struct cq *cq);

#endif
