/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions shared by machine.c, connection.c, table.c, comm_id.c and admission.c; all are called with the machine's
 * lock held. */
#ifndef UROCE_CM_INTERNAL_H
#define UROCE_CM_INTERNAL_H

#include <string.h>

#include "base/qpn.h"
#include "cm/machine.h"

static inline bool machine_gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Sets the peer's id and QPN (0: unknown), by which the connection is found from now on. */
void connection_know(struct connection *c, uint32_t remote_id, uint32_t remote_qpn);
void connection_forget(struct connection *c);

/* table.c. NULL: there is none. A QPN belongs to an adapter: two adapters with one address may both use it. */
struct connection *find_by_remote(struct machine *m, const struct cm_address *a, uint32_t remote_id);
struct connection *find_by_qpn(struct machine *m, const struct cm_address *a, const struct cm_mad *req);
struct connection *find_by_id(struct machine *m, uint32_t id);

/* comm_id.c. */
#define ID_BITS (32 - SLOT_BITS) /* below the slot: the index of a connection, and the use count of that index */
uint32_t comm_id_make(const struct machine *m, uint8_t uses, uint32_t index);
uint32_t comm_id_index(const struct machine *m, uint32_t id);
/* A new transaction ID: different at each call, never 0, not predictable by a peer. */
uint64_t machine_transaction(struct machine *m);

/* admission.c. */
void age_set(struct connection *c, enum cm_age age);
/* The peer has sent a value that only a receiver at its address can know. */
void connection_prove(struct connection *c, uint64_t now);
/* A message is about to be sent. False: not to an address that has proven nothing and has had its share: it may be
 * forged, and its owner may have sent nothing. */
bool credit_take(struct connection *c);
/* A DREP for no connection: proves its address if it brings back our cookie. */
void machine_take_proof(struct machine *m, const struct cm_address *a, const struct cm_mad *drep, uint64_t now);
/* True if one more connection that a peer starts may be accepted; the oldest may go for it. */
bool machine_admit(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint64_t now)
	REQUIRES(m->lock);
/* Frees a connection to make room for others. Its user is told that the peer has given up. */
void connection_evict(struct connection *c, uint64_t now);

/* Sets the deadline; NEVER: none. */
void connection_until(struct connection *c, uint64_t when);
void connection_enter(struct connection *c, enum connection_state state, uint64_t until);
/* To IDLE; frees the connection if its user has released it. */
void connection_idle(struct connection *c);
/* To TIMEWAIT. */
void connection_rest(struct connection *c, uint64_t now);

void connection_tell(struct connection *c, enum cm_event event, int status, const struct cm_mad *mad);

/* The state has changed: tells ops->last_words() what the peer has to hear if the process ends now. */
void connection_last_words(struct connection *c);

/* Sends the message, and stores it for repetition. */
void connection_send(struct connection *c, struct cm_mad *mad);
void connection_repeat(struct connection *c);
/* Enters a state in which the last message is repeated until an answer arrives. */
void connection_await(struct connection *c, enum connection_state state, uint64_t now);

#endif
