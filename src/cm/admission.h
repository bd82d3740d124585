/* SPDX-License-Identifier: BSD-2-Clause */
/* Admission: which connections a peer may start, and how much is sent to an address that has not proven that it
 * receives what is sent to it. With the machine's lock. */
#ifndef UROCE_CM_ADMISSION_H
#define UROCE_CM_ADMISSION_H

#include "cm/state.h"

/* Moves the connection to the list of that age; it is the youngest there. */
void age_set(struct connection *c, enum cm_age age);
/* The peer has sent a value that only a receiver at its address can know. */
void connection_prove(struct connection *c, uint64_t now);
/* A message is about to be sent. False: not to an address that has proven nothing and has had its share: it may be
 * forged, and its owner may have sent nothing. */
bool credit_take(struct connection *c);
/* A DREP for no connection: proves its address if it brings back our cookie. */
void machine_take_proof(struct machine *m, const struct cm_address *a, const struct cm_mad *drep, uint64_t now);
/* Whether a connection that a peer starts by this message may be accepted, once admission_surplus() has gone. */
bool machine_admit(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint64_t now)
	REQUIRES(m->lock);
/* The oldest connection of an age of which there are too many, to be evicted; NULL: no age is full. */
struct connection *admission_surplus(struct machine *m);

#endif
