/* SPDX-License-Identifier: BSD-2-Clause */
/* An event of an id, and the channel that queues it. Operations are in channel.h. */
#ifndef UROCE_CM_EVENT_H
#define UROCE_CM_EVENT_H

#include <rdma/rdma_cma.h>

#include "cm/cm.h"

struct group;
struct id;

#define PRIVATE_ROOM 256 /* bytes of private data; more than any message has */

struct event_channel {
	struct rdma_event_channel base; /* the application's handle; must be first. Guarded by cm.lock; fd is -1 after
					   the channel is destroyed */
	struct list events GUARDED_BY(cm.lock);
	struct list retired GUARDED_BY(cm.lock); /* link of the list of destroyed channels */
	bool readable GUARDED_BY(cm.lock);	 /* true if the eventfd is readable */
	uint32_t waiters GUARDED_BY(cm.lock);	 /* threads in rdma_get_cm_event() */
	void (*notify)(void); /* called in place of the eventfd, with cm.lock held; internal use. Constant */
};

struct event {
	struct rdma_cm_event base;	      /* the application's handle; must be first */
	struct list link GUARDED_BY(cm.lock); /* link of the channel's queue */
	struct id *id; /* the event goes to this id's channel; destroying this id waits for its acknowledgement */
	/* Does deferred work when the application fetches the event; without cm.lock. False: the event is not for
	 * the application. NULL: no such work. */
	bool (*prepare)(struct event *e);
	struct id *request;  /* CONNECT_REQUEST: the new id */
	struct group *group; /* multicast: the join */
	uint8_t private_data[PRIVATE_ROOM];
};

#endif
