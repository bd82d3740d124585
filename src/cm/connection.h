/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection: its life, its state with deadline and last message, and the events for its user. With the machine's
 * lock. */
#ifndef UROCE_CM_CONNECTION_H
#define UROCE_CM_CONNECTION_H

#include "base/lock.h"
#include "cm/state.h"
#include "wire/cm_mad.h"

/* A new connection. NULL if CONNECTION_LIMIT is reached, or without memory. */
struct connection *connection_open(struct machine *m, const struct cm_address *address, void *user) REQUIRES(m->lock);

/* Frees the connection. Its user, if any, gets no event. */
void connection_close(struct connection *c);

/* Sets the deadline; NEVER: none. */
void connection_until(struct connection *c, uint64_t when);
void connection_enter(struct connection *c, enum connection_state state, uint64_t until);
/* Moves to IDLE; frees the connection if its user has released it. */
void connection_idle(struct connection *c);
/* Moves to TIMEWAIT. */
void connection_rest(struct connection *c, uint64_t now);
/* Enters a state in which the last message is repeated until an answer arrives. */
void connection_await(struct connection *c, enum connection_state state, uint64_t now);

/* Calls ops->event(), if the connection has a user. */
void connection_tell(struct connection *c, enum cm_event event, int status, const struct cm_mad *mad);
/* Passes to ops->last_words() what the peer has to hear if the process ends in the new state. */
void connection_last_words(struct connection *c);

/* Sends the message and keeps it for connection_repeat(). */
void connection_send(struct connection *c, struct cm_mad *mad);
void connection_repeat(struct connection *c);
/* Sends an answer without keeping it: if it is lost, the peer repeats its request. */
void connection_send_once(struct connection *c, struct cm_mad mad);
/* Sends these bytes if credit_take() allows it. */
void connection_transmit(struct connection *c, const uint8_t bytes[CM_MAD_BYTES]);

#endif
