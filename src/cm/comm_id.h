/* SPDX-License-Identifier: BSD-2-Clause */
/* Communication ids and transaction ids, which a peer cannot predict. With the machine's lock. */
#ifndef UROCE_CM_COMM_ID_H
#define UROCE_CM_COMM_ID_H

#include "base/qpn.h"
#include "cm/state.h"
#include "wire/cm_mad.h"

#define ID_BITS (32 - SLOT_BITS) /* below the slot: index of a connection, and use count of that index */

/* Slot that a message is for, from its communication id. 0: the message has no such id, and `service` decides. -1:
 * not for this host. Uses no machine state. */
int machine_owner(const uint8_t mad[CM_MAD_BYTES], uint64_t *service);

/* Id of the connection at `index` in its use number `uses`. The top bits are the slot of the machine's process. */
uint32_t comm_id_make(const struct machine *m, uint8_t uses, uint32_t index);
/* Index in a communication id. Every number has one. */
uint32_t comm_id_index(const struct machine *m, uint32_t id);
/* A new transaction ID: unique, never 0, not predictable by a peer. */
uint64_t machine_transaction(struct machine *m);

#endif
