/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/hca.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/barrier.h"
#include "object/mr.h"
#include "object/qp.h"
#include "object/srq.h"

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

int hca_init(struct hca *hca, const struct hca_ops *ops, uint8_t slot, uint64_t seed, uint32_t (*draw)(void *hca))
{
	barrier_prepare();
	memset(hca, 0, sizeof(*hca));
	hca->ops = ops;
	hca->slot = slot;
	atomic_init(&hca->random, seed);
	hca->keys = key_code((uint32_t)hca_random(hca) | 1, (uint32_t)hca_random(hca));
	list_init(&hca->ready);
	timers_init(&hca->timers);
	if (pool_init_random(&hca->qps, sizeof(struct qp), HCA_MAX_QP, draw ?: hca_random_bits, hca) ||
	    pool_init(&hca->mrs, sizeof(struct mr), HCA_MAX_MR + HCA_MAX_MW + 1) ||
	    pool_init(&hca->srqs, sizeof(struct srq), HCA_MAX_SRQ)) {
		hca_fini(hca);
		return -ENOMEM;
	}
	return 0;
}

void hca_fini(struct hca *hca)
{
	pool_fini(&hca->qps);
	pool_fini(&hca->mrs);
	pool_fini(&hca->srqs);
	timers_fini(&hca->timers);
}
