/* SPDX-License-Identifier: BSD-2-Clause */
/* IB connection management (IBTA chapter 12) without I/O. In: messages, calls and the time. Out: messages, events and
 * one deadline. It handles communication ids, not services: ops->request() decides if a service has a listener.
 * state.h has what it knows, calls.h what its user may call. All functions are called with machine->lock held. */
#ifndef UROCE_CM_MACHINE_H
#define UROCE_CM_MACHINE_H

#include "cm/state.h"

/* 0 or -ENOMEM. `slot` is the top 11 bits of all ids (see port/gsi.h); `seed`, of random bits, keys the rest. Does not
 * initialize `lock`: it is all zeros in a new machine, and held if other threads may already use the machine. */
int machine_init(struct machine *m, const struct machine_ops *ops, uint16_t slot, uint64_t seed);
/* Frees all connections; their users are told nothing. */
void machine_fini(struct machine *m);

/* Handles a message from address->remote to address->local. */
void machine_receive(struct machine *m, const uint8_t mad[CM_MAD_BYTES], const struct cm_address *address, uint64_t now)
	REQUIRES(m->lock);
/* Handles all deadlines up to `now`. */
void machine_expire(struct machine *m, uint64_t now) REQUIRES(m->lock);
/* The process in this slot of our own host has ended: its connections to us that are watched end as if it had sent the
 * messages for that. */
void machine_bury(struct machine *m, uint16_t slot, uint64_t now) REQUIRES(m->lock);
/* The destination of the connection with this id does not answer. err -ECONNREFUSED: no process is there, handled as a
 * reject because of an unknown service; other -errno: the host is unreachable. Ignored if the connection has received
 * an answer meanwhile. */
void machine_absent(struct machine *m, uint32_t id, int err, uint64_t now) REQUIRES(m->lock);
/* Calls ops->last_words() for each connection. */
void machine_last_words(struct machine *m) REQUIRES(m->lock);
/* The process exits: sends once more each message that a peer waits for and may have missed, since no later repetition
 * is possible. */
void machine_farewell(struct machine *m) REQUIRES(m->lock);
/* Time of the next machine_expire() call; NEVER if nothing is due. */
uint64_t machine_deadline(struct machine *m);

#endif
