/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/hca.h"

#include "base/base.h"

#define SPARE_QPS 64 /* QPs created where no slot can be claimed: delegates (port/target.h) */

_Atomic uint64_t hca_counted[HCA_COUNTERS];

uint64_t hca_random(struct hca *hca)
{
	/* splitmix64; relaxed: only uniqueness of the counter matters */
	uint64_t z = atomic_fetch_add_explicit(&hca->random, 0x9e3779b97f4a7c15u, memory_order_relaxed);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint32_t hca_random_bits(void *hca)
{
	return (uint32_t)hca_random(hca);
}

/* Indexes of QPs are of any part that the process has, as its first slot says. SRQs take the parts in order: from the
 * first slot's on (srq.c). */
int hca_wants_slot(struct hca *hca)
{
	uint32_t made = max_of(pool_used(&hca->qps) + SPARE_QPS, pool_made(&hca->srqs)), parts;

	for (parts = 0; parts < SLOT_PARTS; parts++)
		if (!atomic_load_explicit(&hca->slots[slot_part(hca->slot) ^ parts], memory_order_relaxed))
			break;
	return parts < SLOT_PARTS && made >= parts * SLOT_QPNS ? (int)(slot_part(hca->slot) ^ parts) : -1;
}

void hca_add_slot(struct hca *hca, uint16_t slot)
{
	atomic_store_explicit(&hca->slots[slot_part(slot)], slot, memory_order_relaxed);
	pool_open(&hca->qps, slot_part(slot));
}

void hca_fini(struct hca *hca)
{
	pool_fini(&hca->qps);
	pool_fini(&hca->mrs);
	pool_fini(&hca->srqs);
	timers_fini(&hca->timers);
}
