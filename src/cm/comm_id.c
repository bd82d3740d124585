/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids are made by a keyed permutation, so that peers cannot predict them. */
#include "cm/comm_id.h"

#include "cm/state.h"

#define HALF	 ((ID_BITS + 1) / 2)
#define HALF_MAX ((1u << HALF) - 1)
#define ROUNDS	 6
#define ID_USES	 (1u << (ID_BITS - 16))

static uint32_t id_round(const struct machine *m, uint32_t round, uint32_t half)
{
	uint32_t input = round << HALF | half;

	return siphash(&m->key, &input, sizeof(input)) & HALF_MAX;
}

/* Keyed permutation of two halves, which may be one bit longer than an id. */
static uint32_t id_mix(const struct machine *m, uint32_t number)
{
	uint32_t left = number >> HALF, right = number & HALF_MAX;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t next = left ^ id_round(m, i, right);

		left = right;
		right = next;
	}
	return left << HALF | right;
}

static uint32_t id_unmix(const struct machine *m, uint32_t id)
{
	uint32_t left = id >> HALF & HALF_MAX, right = id & HALF_MAX;

	for (uint32_t i = ROUNDS; i-- > 0;) {
		uint32_t before = right ^ id_round(m, i, left);

		right = left;
		left = before;
	}
	return left << HALF | right;
}

/* Ids look random, and none repeats before its index has been used 32 times. A result that is too long for an id is
 * mixed again. This ends, as each permutation leads back to where it began: after two rounds on average. */
uint32_t comm_id_make(const struct machine *m, uint8_t uses, uint32_t index)
{
	uint32_t id = (uint32_t)uses % ID_USES << 16 | index;

	do
		id = id_mix(m, id);
	while (id >> ID_BITS);
	return (uint32_t)m->slot << ID_BITS | id;
}
static_assert(CONNECTION_LIMIT <= 1 << 16 && 16 < ID_BITS, "a number is uses and index");

uint32_t comm_id_index(const struct machine *m, uint32_t id)
{
	id &= (1u << ID_BITS) - 1;
	do
		id = id_unmix(m, id);
	while (id >> ID_BITS);
	return id & 0xffff;
}

/* The lock is that of the connection's machine, which the analysis cannot name. */
NO_LOCK_ANALYSIS uint64_t machine_transaction(struct machine *m)
{
	uint64_t input[2] = {++m->transactions, UINT64_MAX};

	return siphash(&m->key, input, sizeof(input)) | 1; /* never 0 */
}

int machine_owner(const uint8_t bytes[CM_MAD_BYTES], uint64_t *service)
{
	struct cm_mad mad;

	if (cm_mad_parse(&mad, bytes))
		return -1;
	*service = mad.service;
	if (mad.message == CM_REQ || mad.message == CM_SIDR_REQ)
		return 0;
	return (mad.message == CM_SIDR_REP ? mad.local_id : mad.remote_id) >> ID_BITS;
}
