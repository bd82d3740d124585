/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers of queue pairs, and how the processes of a network namespace share them. A slot is 8,192 consecutive numbers:
 * the top 11 bits of a number are the slot, from 1 on. A process claims one slot when it starts, by which others know
 * it, and more, up to 8, as needed (host/slot.h). The lowest three bits of a slot are its part, and no two slots of a
 * process have the same part: so the low 16 bits of a number are the index of the queue pair in its process, in any of
 * its slots. */
#ifndef UROCE_QPN_H
#define UROCE_QPN_H

#include <stdint.h>

#define SLOT_BITS  11
#define SLOT_SHIFT (24 - SLOT_BITS)
#define SLOT_QPNS  (1u << SLOT_SHIFT)
#define SLOT_LAST  ((1 << SLOT_BITS) - 1) /* slot 0 has the well-known numbers, and is no process's */
#define SLOT_PARTS (0x10000u / SLOT_QPNS)

static inline uint16_t qpn_slot(uint32_t qpn)
{
	return qpn >> SLOT_SHIFT & SLOT_LAST;
}

static inline uint32_t slot_part(uint16_t slot)
{
	return slot % SLOT_PARTS;
}

/* The number, in that slot, of the object with that index. */
static inline uint32_t slot_number(uint16_t slot, uint32_t index)
{
	return (uint32_t)(slot / SLOT_PARTS) << 16 | index;
}

#endif
