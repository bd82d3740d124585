/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys name regions: 24 bits of a key are the index of the region, scrambled by two random numbers of its process, and
 * 8 bits are a tag. An odd multiplier permutes the numbers below 2^24, so regions with adjacent indexes get distant
 * keys. */
#ifndef UROCE_KEY_H
#define UROCE_KEY_H

#include <stdint.h>

#define KEY_BITS   24
#define KEY_MASK   ((1u << KEY_BITS) - 1)
#define KEY_UNLIKE 0x80u /* a bit of the tag */

struct key_code {
	uint32_t mix;	  /* odd */
	uint32_t inverse; /* mix * inverse == 1 */
	uint32_t mask;
	uint32_t lkey; /* lkey ^ rkey of each region: 0 or KEY_UNLIKE. Of this process only: peers name rkeys */
};

static inline struct key_code key_code(uint32_t mix, uint32_t mask)
{
	struct key_code code = {mix, mix, mask, 0};

	for (int i = 0; i < 4; i++) /* Newton: each step doubles the number of correct bits, which is 3 at first */
		code.inverse *= 2 - mix * code.inverse;
	return code;
}

static inline uint32_t key_make(const struct key_code *code, uint32_t index, uint8_t tag)
{
	return ((index * code->mix ^ code->mask) & KEY_MASK) << 8 | tag;
}

static inline uint32_t key_index(const struct key_code *code, uint32_t key)
{
	return ((key >> 8 ^ code->mask) * code->inverse) & KEY_MASK;
}

#endif
