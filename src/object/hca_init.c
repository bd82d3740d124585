/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/hca_init.h"

#include <errno.h>
#include <string.h>

#include "base/barrier.h"
#include "object/mr.h"
#include "object/qp.h"
#include "object/srq.h"

static_assert(HCA_MAX_QP == SLOT_PARTS * SLOT_QPNS && SLOT_PARTS == POOL_PARTS, "a part of the pool is a slot");

int hca_init(struct hca *hca, const struct hca_ops *ops, uint16_t slot, uint64_t seed, uint32_t (*draw)(void *hca))
{
	barrier_prepare();
	memset(hca, 0, sizeof(*hca));
	hca->ops = ops;
	hca->slot = slot;
	atomic_init(&hca->slots[slot_part(slot)], slot);
	atomic_init(&hca->random, seed);
	hca->keys = key_code((uint32_t)hca_random(hca) | 1, (uint32_t)hca_random(hca));
	list_init(&hca->ready);
	list_init(&hca->settling);
	lock_set_rank(&hca->window_lock, RANK_WINDOW);
	lock_set_rank(&hca->ready_lock, RANK_READY);
	timers_init(&hca->timers);
	if (pool_init_random(&hca->qps, sizeof(struct qp), HCA_MAX_QP, draw ?: hca_random_bits, hca) ||
	    pool_init(&hca->mrs, sizeof(struct mr), HCA_MAX_MR + HCA_MAX_MW + 1) ||
	    pool_init(&hca->srqs, sizeof(struct srq), HCA_MAX_SRQ)) {
		hca_fini(hca);
		return -ENOMEM;
	}
	pool_set_rank(&hca->qps, offsetof(struct qp, lock), RANK_QP);
	pool_set_rank(&hca->srqs, offsetof(struct srq, rq.lock), RANK_RQ);
	pool_confine(&hca->qps, slot_part(slot));
	return 0;
}
