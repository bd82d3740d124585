/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection: its life, its state with the deadline and the last message, and what its user is told. With the
 * machine's lock. */
#ifndef UROCE_CM_CONNECTION_H
#define UROCE_CM_CONNECTION_H

#include "base/lock.h"
#include "cm/state.h"
#include "wire/cm_mad.h"

/* NULL: CONNECTION_LIMIT is reached, or no memory. */
struct connection *connection_open(struct machine *m, const struct cm_address *address, void *user) REQUIRES(m->lock);

/* Frees it. Its user, if it has one, is told nothing. */
void connection_close(struct connection *c);

/* Sets the deadline; NEVER: none. */
void connection_until(struct connection *c, uint64_t when);
void connection_enter(struct connection *c, enum connection_state state, uint64_t until);
/* To IDLE; frees the connection if its user has released it. */
void connection_idle(struct connection *c);
/* To TIMEWAIT. */
void connection_rest(struct connection *c, uint64_t now);
/* Enters a state in which the last message is repeated until an answer arrives. */
void connection_await(struct connection *c, enum connection_state state, uint64_t now);

/* Tells the user, if it has one: ops->event(). */
void connection_tell(struct connection *c, enum cm_event event, int status, const struct cm_mad *mad);
/* The state has changed: tells ops->last_words() what the peer has to hear if the process ends now. */
void connection_last_words(struct connection *c);

/* Sends the message, and stores it for connection_repeat(). */
void connection_send(struct connection *c, struct cm_mad *mad);
void connection_repeat(struct connection *c);
/* Sends an answer that is not stored: if it is lost, the peer repeats its request. */
void connection_send_once(struct connection *c, struct cm_mad mad);
/* Sends these bytes, if credit_take() permits it. */
void connection_transmit(struct connection *c, const uint8_t bytes[CM_MAD_BYTES]);

#endif
