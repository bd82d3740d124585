/* SPDX-License-Identifier: BSD-2-Clause */
/* IB connection management (IBTA chapter 12) without I/O. In: messages, calls and the time. Out: messages, events
 * and one deadline. The machine handles communication ids, not services: ops->request() decides if a service has a
 * listener. state.h has the state, calls.h the calls of the user. All functions need machine->lock. */
#ifndef UROCE_CM_MACHINE_H
#define UROCE_CM_MACHINE_H

#include "cm/state.h"

/* 0 or -ENOMEM. `slot`: top 11 bits of all ids (port/gsi.h); `seed`: random bits that key the rest. Does not
 * initialize `lock`, which is all zeros in a new machine, and held if other threads may use the machine already. */
int machine_init(struct machine *m, const struct machine_ops *ops, uint16_t slot, uint64_t seed);
/* Frees all connections. Their users get no event. */
void machine_fini(struct machine *m);

/* Handles a message from address->remote to address->local. */
void machine_receive(struct machine *m, const uint8_t mad[CM_MAD_BYTES], const struct cm_address *address, uint64_t now)
	REQUIRES(m->lock);
/* The answer of a process that has no machine. False: none. */
bool machine_refusal(const uint8_t mad[CM_MAD_BYTES], uint8_t answer[CM_MAD_BYTES]);
/* Handles all deadlines up to `now`. */
void machine_expire(struct machine *m, uint64_t now) REQUIRES(m->lock);
/* Ends watched connections to the process in this slot of this host, which has ended, as if the process had sent the
 * messages for that. */
void machine_bury(struct machine *m, uint16_t slot, uint64_t now) REQUIRES(m->lock);
/* Ends a connection whose destination does not answer. `err`: -ECONNREFUSED (no process; treated as a reject for an
 * unknown service) or another -errno (host unreachable). Ignored if an answer has arrived meanwhile. */
void machine_absent(struct machine *m, uint32_t id, int err, uint64_t now) REQUIRES(m->lock);
/* Calls ops->last_words() for each connection. */
void machine_last_words(struct machine *m) REQUIRES(m->lock);
/* Sends each message that a peer waits for and may have missed once more, as the process exits and cannot repeat it
 * later. */
void machine_farewell(struct machine *m) REQUIRES(m->lock);
/* Time (ns) of the next machine_expire() call, or NEVER. */
uint64_t machine_deadline(struct machine *m);

#endif
