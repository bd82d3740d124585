/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions shared by machine.c and connection.c; all are called with the machine's lock held. */
#ifndef UROCE_CM_INTERNAL_H
#define UROCE_CM_INTERNAL_H

#include "cm/machine.h"

/* Sets the peer's id and QPN (0: unknown), by which the connection is found from now on. */
void connection_know(struct connection *c, uint32_t remote_id, uint32_t remote_qpn);
void connection_forget(struct connection *c);

/* A new transaction ID: different at each call, never 0, not predictable by a peer. */
uint64_t machine_transaction(struct machine *m);

/* Sets the deadline; NEVER: none. */
void connection_until(struct connection *c, uint64_t when);
void connection_enter(struct connection *c, enum connection_state state, uint64_t until);
/* To IDLE; frees the connection if its user has released it. */
void connection_idle(struct connection *c);
/* To TIMEWAIT. */
void connection_rest(struct connection *c, uint64_t now);

void connection_tell(struct connection *c, enum cm_event event, int status, const struct cm_mad *mad);

/* Sends the message, and stores it for repetition. */
void connection_send(struct connection *c, struct cm_mad *mad);
void connection_repeat(struct connection *c);
/* Enters a state in which the last message is repeated until an answer arrives. */
void connection_await(struct connection *c, enum connection_state state, uint64_t now);

#endif
