/* SPDX-License-Identifier: BSD-2-Clause */
/* The room in the ring between two local peers: what the producer has written, what the consumer has read, and how
 * much of that it has told the producer, as link/ring.h does it: after each eighth of the ring, or when the ring is
 * empty. */
#ifndef SIM_LANE_H
#define SIM_LANE_H

#include "base/base.h"

struct sim_lane {
	uint32_t size; /* bytes; 0: there is no ring */
	uint64_t at, read, told;
	uint64_t tell_at; /* when the consumer tells what it has read; NEVER: it has */
};

/* What a packet with so much payload takes. */
static inline uint32_t lane_bytes(uint32_t payload)
{
	return (payload + 100 + 63) & ~63u;
}

static inline uint32_t lane_room(const struct sim_lane *l)
{
	return l->size - (uint32_t)(l->at - l->told);
}

/* True: the producer has been told. */
static inline bool lane_read(struct sim_lane *l, uint32_t bytes, uint64_t tell_at)
{
	l->read += bytes;
	l->tell_at = min_of(l->tell_at, tell_at);
	if (l->read - l->told < l->size / 8)
		return false;
	l->told = l->read;
	return true;
}

static inline void lane_tell(struct sim_lane *l)
{
	l->told = l->read;
	l->tell_at = NEVER;
}

#endif
