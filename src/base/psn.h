/* SPDX-License-Identifier: BSD-2-Clause */
/* Packet sequence numbers: 24 bits that wrap (IBTA 9.7.1). A struct, so that `psn + 1` does not compile. */
#ifndef UROCE_PSN_H
#define UROCE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define PSN_MASK 0xffffffu

typedef struct {
	uint32_t v;
} psn_t;

static inline psn_t psn(uint32_t v)
{
	return (psn_t){v & PSN_MASK};
}

static inline psn_t psn_add(psn_t p, uint32_t n)
{
	return psn(p.v + n);
}

/* a - b, between -2^23 and 2^23 - 1: how far a is ahead of b. */
static inline int32_t psn_diff(psn_t a, psn_t b)
{
	return (int32_t)((a.v - b.v) << 8) >> 8;
}

static inline bool psn_before(psn_t a, psn_t b)
{
	return psn_diff(a, b) < 0;
}

static inline bool psn_equal(psn_t a, psn_t b)
{
	return a.v == b.v;
}

#endif
