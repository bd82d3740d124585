/* SPDX-License-Identifier: BSD-2-Clause */
/* Admission: the connections that a peer may start, and the amount sent to an address that has not proven that it
 * receives what is sent to it. With the machine's lock. */
#ifndef UROCE_CM_ADMISSION_H
#define UROCE_CM_ADMISSION_H

#include "cm/state.h"

/* Moves the connection to the list of that age, as its youngest. */
void age_set(struct connection *c, enum cm_age age);
/* Notes that the peer has sent a value that only a receiver at its address can know. */
void connection_prove(struct connection *c, uint64_t now);
/* Takes credit for a message that is about to be sent. False if the address is unproven and has used its credit: the
 * address may be forged, and its owner may have sent nothing. */
bool credit_take(struct connection *c);
/* Takes a DREP for no connection, which proves its address if it brings back our cookie. */
void machine_take_proof(struct machine *m, const struct cm_address *a, const struct cm_mad *drep, uint64_t now);
/* True if a connection that a peer starts by this message may be accepted, once admission_surplus() is evicted. */
bool machine_admit(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint64_t now)
	REQUIRES(m->lock);
/* The connection to evict: the oldest of an age that has too many. NULL if no age is full. */
struct connection *admission_surplus(struct machine *m);

#endif
