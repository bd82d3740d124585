/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of connection management: what becomes of connections and connection attempts. */
#ifndef UROCE_RSOCKET_CM_EVENTS_H
#define UROCE_RSOCKET_CM_EVENTS_H

#include "rsocket/rsocket.h"

/* Handles the events that wait in the channel. */
void cm_events_run(void);
/* The connection, or the attempt, has failed: it ends with `error`, or falls back to the descriptor. */
void rsocket_failed(struct rsocket *rs, int error) REQUIRES(rs->lock);
/* Destroys the id and its QP. No event of the rsocket is handled any more. The last reference is gone. */
void cm_events_forget(struct rsocket *rs);
/* Before the process ends: waits until no event is handled; no other thread handles one from now on. */
void cm_events_stop(void);
/* The threads that handled events are the parent's. */
void cm_events_in_child(void);

#endif
