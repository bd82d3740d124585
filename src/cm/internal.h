/* SPDX-License-Identifier: BSD-2-Clause */
/* What machine.c and connection.c share. */
#ifndef UROCE_CM_INTERNAL_H
#define UROCE_CM_INTERNAL_H

#include "cm/machine.h"

/* The peer's id and QPN (0: not told): the connection is found by them from now on. */
void connection_know(struct connection *c, uint32_t remote_id, uint32_t remote_qpn);
void connection_forget(struct connection *c);

/* Another one each time, not 0; nobody can foresee it. */
uint64_t machine_transaction(struct machine *m);

/* The deadline; NEVER: none. */
void connection_until(struct connection *c, uint64_t when);
void connection_enter(struct connection *c, enum connection_state state, uint64_t until);
/* To IDLE; the end of one that has been released. */
void connection_idle(struct connection *c);
/* To TIMEWAIT. */
void connection_rest(struct connection *c, uint64_t now);

void connection_tell(struct connection *c, enum cm_event event, int status, const struct cm_mad *mad);

/* Sends it, and keeps it to be sent again. */
void connection_send(struct connection *c, struct cm_mad *mad);
void connection_repeat(struct connection *c);
/* To a state in which what has just been sent is repeated until an answer comes. */
void connection_await(struct connection *c, enum connection_state state, uint64_t now);

#endif
