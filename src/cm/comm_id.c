/* SPDX-License-Identifier: BSD-2-Clause */
/* Communication ids and transaction ids, which no stranger can predict. */
#include "cm/internal.h"

#define HALF	 (ID_BITS / 2)
#define HALF_MAX ((1u << HALF) - 1)
#define ROUNDS	 6

static uint32_t id_round(const struct machine *m, uint32_t round, uint32_t half)
{
	uint32_t input = round << HALF | half;

	return siphash(&m->key, &input, sizeof(input)) & HALF_MAX;
}

/* A keyed permutation: ids look random, and none repeats before its index has been used 256 times. */
static uint32_t id_scramble(const struct machine *m, uint32_t number)
{
	uint32_t left = number >> HALF, right = number & HALF_MAX;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t next = left ^ id_round(m, i, right);

		left = right;
		right = next;
	}
	return left << HALF | right;
}

static uint32_t id_unscramble(const struct machine *m, uint32_t id)
{
	uint32_t left = id >> HALF & HALF_MAX, right = id & HALF_MAX;

	for (uint32_t i = ROUNDS; i-- > 0;) {
		uint32_t before = right ^ id_round(m, i, left);

		right = left;
		left = before;
	}
	return left << HALF | right;
}

uint32_t comm_id_make(const struct machine *m, uint8_t uses, uint32_t index)
{
	return (uint32_t)m->slot << ID_BITS | id_scramble(m, (uint32_t)uses << 16 | index);
}
static_assert(CONNECTION_LIMIT <= 1 << 16 && ID_BITS == 16 + 8, "a number is uses and index");

uint32_t comm_id_index(const struct machine *m, uint32_t id)
{
	return id_unscramble(m, id) & 0xffff;
}

/* Callers hold m->lock as that of their connection's machine, which the analysis cannot name. */
NO_LOCK_ANALYSIS uint64_t machine_transaction(struct machine *m)
{
	uint64_t input[2] = {++m->transactions, UINT64_MAX};

	return siphash(&m->key, input, sizeof(input)) | 1; /* never 0 */
}
