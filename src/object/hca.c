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
	/* splitmix64; relaxed: only the counter's uniqueness matters */
	uint64_t z = atomic_fetch_add_explicit(&hca->random, 0x9e3779b97f4a7c15u, memory_order_relaxed);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

int hca_init(struct hca *hca, const struct hca_ops *ops, uint8_t slot, uint64_t seed)
{
	barrier_prepare();
	memset(hca, 0, sizeof(*hca));
	hca->ops = ops;
	hca->slot = slot;
	atomic_init(&hca->random, seed);
	hca->keys = key_code((uint32_t)hca_random(hca) | 1, (uint32_t)hca_random(hca));
	list_init(&hca->ready);
	timers_init(&hca->timers);
	if (pool_init(&hca->qps, sizeof(struct qp), HCA_MAX_QP) ||
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
	lock_assert_unshared(&hca->adopted_lock);
	free(hca->adopted);
	hca->adopted = NULL;
}

int hca_adopt(struct hca *hca, const struct qp *qp)
{
	uint32_t count;
	struct adoption *more;

	lock_take(&hca->adopted_lock);
	count = atomic_load_explicit(&hca->adoptions, memory_order_relaxed);
	more = realloc(hca->adopted, (count + 1) * sizeof(*more));
	if (more) {
		hca->adopted = more;
		more[count] = (struct adoption){qp->base.qp_num, qp->index};
		atomic_store_explicit(&hca->adoptions, count + 1, memory_order_relaxed);
	}
	lock_drop(&hca->adopted_lock);
	return more ? 0 : -ENOMEM;
}

/* UINT32_MAX: it is not there. */
static uint32_t find_adopted(struct hca *hca, uint32_t qpn) REQUIRES(hca->adopted_lock)
{
	uint32_t count = atomic_load_explicit(&hca->adoptions, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++)
		if (hca->adopted[i].qpn == qpn)
			return i;
	return UINT32_MAX;
}

void hca_disown(struct hca *hca, const struct qp *qp)
{
	uint32_t at, last;

	lock_take(&hca->adopted_lock);
	at = find_adopted(hca, qp->base.qp_num);
	if (at != UINT32_MAX) {
		last = atomic_load_explicit(&hca->adoptions, memory_order_relaxed) - 1;
		hca->adopted[at] = hca->adopted[last];
		atomic_store_explicit(&hca->adoptions, last, memory_order_relaxed);
	}
	lock_drop(&hca->adopted_lock);
}

/* Its place in the pool; UINT32_MAX: there is none. */
static uint32_t adopted_index(struct hca *hca, uint32_t qpn)
{
	uint32_t at, index;

	if (!atomic_load_explicit(&hca->adoptions, memory_order_relaxed))
		return UINT32_MAX;
	lock_take(&hca->adopted_lock);
	at = find_adopted(hca, qpn);
	index = at == UINT32_MAX ? at : hca->adopted[at].index;
	lock_drop(&hca->adopted_lock);
	return index;
}

bool hca_has_adopted(struct hca *hca, uint32_t qpn)
{
	return adopted_index(hca, qpn) != UINT32_MAX;
}

static struct qp *find_at(struct hca *hca, uint32_t index, uint32_t qpn)
{
	struct qp *qp = pool_at(&hca->qps, index);

	if (!qp)
		return NULL;
	qp_fetch(qp);
	lock_take(&qp->lock);
	if (unlikely(!qp->alive || qp->base.qp_num != qpn)) {
		lock_drop(&qp->lock);
		return NULL;
	}
	lock_hand_over(&qp->lock);
	return qp;
}

struct qp *hca_find_qp(struct hca *hca, uint32_t qpn)
{
	struct qp *qp = find_at(hca, qpn & 0xffff, qpn);

	return likely(qp) ? qp : find_at(hca, adopted_index(hca, qpn), qpn);
}
