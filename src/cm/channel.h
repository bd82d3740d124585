/* SPDX-License-Identifier: BSD-2-Clause */
/* Event channels and events. An event belongs to its channel until it is fetched, and to the application until it is
 * acknowledged. Any thread may call. */
#ifndef UROCE_CM_CHANNEL_H
#define UROCE_CM_CHANNEL_H

#include "cm/event.h"
#include "cm/id.h"

/* NULL: no memory; then the event is lost, as in the kernel. */
struct event *event_make(struct id *id, enum rdma_cm_event_type type, int status);
/* Copies private data of a message, at most PRIVATE_ROOM bytes, into the event; its length into *told. */
void event_set_private(struct event *e, const void *data, size_t length, uint8_t *told);
/* Queues the event; NULL is none. */
void event_post(struct event *e) REQUIRES(cm.lock);
/* Drops the queued events of the id, or of one of its groups. */
void events_drop(struct id *id) REQUIRES(cm.lock);
void events_drop_group(struct id *id, const struct group *group) REQUIRES(cm.lock);
/* rdma_get_cm_event(), for callers that no rule of faults refuses. */
int cm_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
/* Moves the id to another channel, with its queued events. */
void events_move(struct id *id, struct event_channel *to) REQUIRES(cm.lock);
/* For an id without a channel: waits for the event that completes the operation just started. Returns the return value
 * of the rdma_ function. */
int id_complete(struct id *id) EXCLUDES(cm.lock);

/* Frees an id that the application has not got, with its connection and its events. */
void id_discard(struct id *id) REQUIRES(cm.lock);

#endif
