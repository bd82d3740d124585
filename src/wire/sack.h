/* SPDX-License-Identifier: BSD-2-Clause */
/* The selective acknowledgement, an extension between two uroce: the packets that a responder has received beyond the
 * one that it expects. The PSN in the BTH is the expected one. The payload is the PSN of the first bit (be32), then
 * bits, the lowest of each byte first: bit n is 1 if the responder has the packet with PSN first + n. */
#ifndef UROCE_SACK_H
#define UROCE_SACK_H

#include "base/base.h"
#include "base/psn.h"

enum {
	SACK_BYTES = 244, /* bytes of bits at most: the smallest path MTU has room for them */
	SACK_BITS = 8 * SACK_BYTES,
	SACK_PAYLOAD = 4 + SACK_BYTES,
};

struct sack {
	psn_t first;
	uint32_t count; /* bits */
	const uint8_t *bits;
};

/* Parses the payload of a received packet. False: too short, too long or no multiple of 4 bytes. */
bool sack_parse(struct sack *s, const uint8_t *payload, uint32_t length);

static inline bool sack_has(const struct sack *s, uint32_t bit)
{
	return s->bits[bit / 8] >> bit % 8 & 1;
}

/* Begins a payload without bits; sack_set() sets one. Returns the length of the payload for that many bits, which is a
 * multiple of 4 bytes. */
uint32_t sack_begin(uint8_t payload[SACK_PAYLOAD], psn_t first, uint32_t count);

static inline void sack_set(uint8_t payload[SACK_PAYLOAD], uint32_t bit)
{
	payload[4 + bit / 8] |= (uint8_t)(1u << bit % 8);
}

#endif
