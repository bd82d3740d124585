/* SPDX-License-Identifier: BSD-2-Clause */
/* Communication ids and transaction ids, which no stranger can predict. With the machine's lock. */
#ifndef UROCE_CM_COMM_ID_H
#define UROCE_CM_COMM_ID_H

#include "base/qpn.h"
#include "cm/state.h"
#include "wire/cm_mad.h"

#define ID_BITS (32 - SLOT_BITS) /* below the slot: the index of a connection, and the use count of that index */

/* The slot that a message is for, taken from its communication id. 0: it has no such id, and `service` decides. -1: not
 * a message for us. Uses no machine state. */
int machine_owner(const uint8_t mad[CM_MAD_BYTES], uint64_t *service);

/* The id of the connection at `index`, used for the `uses`-th time: the slot of the machine's process is its top bits.
 */
uint32_t comm_id_make(const struct machine *m, uint8_t uses, uint32_t index);
/* The index in that id. Any number has one. */
uint32_t comm_id_index(const struct machine *m, uint32_t id);
/* A new transaction ID: different at each call, never 0, not predictable by a peer. */
uint64_t machine_transaction(struct machine *m);

#endif
