/* Packets that reached the wrong process are handed to the right one: a fallback, as steering (steering.h) sends nearly
 * all where they belong. Several packets travel in one AF_UNIX datagram. The receiver of a stopped process's packets
 * never waits for it: a full queue drops, as a network does.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_HANDOVER_H
#define UROCE_HANDOVER_H

#include "link/link.h"
#include "loop/slot.h"

#define HANDOVER_BYTES 65536

/* What one receiver gathers; one thread at a time. All zeros is empty. */
struct handover {
	uint8_t slot;	/* whom it is for */
	uint32_t bytes;
	uint64_t packets, lost;
	_Alignas(8) uint8_t memory[HANDOVER_BYTES];
};

/* The packet is copied; it leaves with the next handover_send(), or before if there is no room or the slot changes. */
void handover_add(struct handover *h, const struct slot *own, uint8_t slot, const struct packet *p,
		  const union ibv_gid *from);
void handover_send(struct handover *h, const struct slot *own);

/* Calls deliver() for each packet of one datagram that another process of this user sent us. False: none is there. */
bool handover_receive(const struct slot *own, link_deliver *deliver, void *arg);

#endif
