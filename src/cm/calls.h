/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of a connection's user, and the states that allow them. With the machine's lock. */
#ifndef UROCE_CM_CALLS_H
#define UROCE_CM_CALLS_H

#include "cm/state.h"

/* Ends the user's interest: no more events. A connection that is alive ends as the protocol requires. */
void connection_release(struct connection *c, uint64_t now);

/* Each returns 0, or -EINVAL if not allowed in this state. `mad` has the contents of the message; ids and
 * transaction are filled in here. */
int connection_request(struct connection *c, struct cm_mad *req, uint64_t now); /* in IDLE: sends REQ */
int connection_accept(struct connection *c, struct cm_mad *rep, uint64_t now);	/* answers a REQ: REP */
int connection_reject(struct connection *c, struct cm_mad *rej, uint64_t now);	/* answers a REQ or a REP: REJ */
int connection_ready(struct connection *c, struct cm_mad *rtu, uint64_t now);	/* answers a REP: RTU */
int connection_established(struct connection *c);				/* data arrived before the RTU */
int connection_disconnect(struct connection *c, struct cm_mad *dreq,
			  uint64_t now); /* sends DREQ, or answers one: DREP */
int connection_lookup(struct connection *c, struct cm_mad *sidr_req, uint64_t now); /* in IDLE: sends SIDR_REQ */
int connection_answer(struct connection *c, struct cm_mad *sidr_rep, uint64_t now); /* answers a SIDR_REQ: SIDR_REP */

#endif
