/* SPDX-License-Identifier: BSD-2-Clause */
/* Event channels and events. An event belongs to its channel until it is fetched, and to the application until it is
 * acknowledged. Any thread may call. */
#ifndef UROCE_CM_CHANNEL_H
#define UROCE_CM_CHANNEL_H

#include "cm/event.h"
#include "cm/id.h"

/* A new event. NULL without memory; the event is lost then, as in the kernel. */
struct event *event_make(struct id *id, enum rdma_cm_event_type type, int status);
/* Copies at most PRIVATE_ROOM bytes of private data into the event; *told gets the length. */
void event_set_private(struct event *e, const void *data, size_t length, uint8_t *told);
/* Queues the event; ignores NULL. */
void event_post(struct event *e) REQUIRES(cm.lock);
/* Drops queued events of the id, or of one of its groups. */
void events_drop(struct id *id) REQUIRES(cm.lock);
void events_drop_group(struct id *id, const struct group *group) REQUIRES(cm.lock);
/* rdma_get_cm_event(), without fault rules. */
int cm_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
/* Moves the id to another channel, with its queued events. */
void events_move(struct id *id, struct event_channel *to) REQUIRES(cm.lock);
/* Waits for the event that completes the operation just started, for an id without a channel: `sync`, which is
 * id->sync before the operation. Other threads may have destroyed any other id by now, having got the event. Returns
 * the return value of the rdma_ function. */
int id_complete(struct id *id, bool sync) EXCLUDES(cm.lock);

/* Frees an id that the application has not received, with its connection and its events. */
void id_discard(struct id *id) REQUIRES(cm.lock);

#endif
