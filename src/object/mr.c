/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/mr.h"

#include <sched.h>

#define KEY_BITS 24
#define KEY_MASK ((1u << KEY_BITS) - 1)

/* An odd multiplier permutes the numbers below 2^24, so neighbouring regions get keys far apart. */
static uint32_t key_scramble(const struct hca *hca, uint32_t index)
{
	return ((index * hca->key_mix) ^ hca->key_mask) & KEY_MASK;
}

static uint32_t key_unscramble(const struct hca *hca, uint32_t name)
{
	uint32_t mix = hca->key_mix, inverse = mix;

	for (int i = 0; i < 4; i++) /* Newton: each step doubles the bits that are right, from 3 on */
		inverse *= 2 - mix * inverse;
	return ((name ^ hca->key_mask) * inverse) & KEY_MASK;
}

static uint32_t new_key(struct mr *mr)
{
	uint32_t key;

	do
		key = key_scramble(mr->hca, mr->index) << 8 | (hca_random(mr->hca) & 0xff);
	while (key == 0);
	return key;
}

static void fill(struct mr *mr, uint32_t key, struct pd *pd, void *address, uint64_t length, uint64_t iova,
		 unsigned access)
{
	mr->pd = pd;
	mr->iova = iova;
	mr->length = length;
	mr->memory = address;
	mr->access = access;
	mr->base.context = pd->base.context;
	mr->base.pd = &pd->base;
	mr->base.addr = address;
	mr->base.length = length;
	mr->base.lkey = mr->base.rkey = key;
	/* pairs with the load in mr_get(): who sees the key sees the rest */
	atomic_store_explicit(&mr->key, key, memory_order_seq_cst);
}

/* Nobody new comes in, and whoever is inside leaves. */
static void close_door(struct mr *mr)
{
	/* Sequentially consistent, with mr_get(): either it sees the key gone, or we see it inside. */
	atomic_store_explicit(&mr->key, 0, memory_order_seq_cst);
	while (atomic_load_explicit(&mr->users, memory_order_seq_cst))
		sched_yield(); /* inside means: for one packet */
}

struct mr *mr_register(struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access)
{
	uint32_t index;
	struct mr *mr = pool_alloc(&pd->hca->mrs, &index);

	if (!mr)
		return NULL;
	mr->hca = pd->hca;
	mr->index = index;
	mr->invalidatable = false;
	mr->base.handle = index;
	fill(mr, new_key(mr), pd, address, length, iova, access);
	return mr;
}

void mr_reregister(struct mr *mr, struct pd *pd, void *address, uint64_t length, uint64_t iova,
		   unsigned access)
{
	bool moves = address != mr->memory || length != mr->length || iova != mr->iova;

	close_door(mr);
	fill(mr, moves ? new_key(mr) : mr->base.lkey, pd, address, length, iova, access);
}

void mr_deregister(struct mr *mr)
{
	close_door(mr);
	pool_free(&mr->hca->mrs, mr->index);
}

struct mr *mr_get(struct hca *hca, uint32_t key)
{
	struct mr *mr = pool_at(&hca->mrs, key_unscramble(hca, key >> 8));

	if (unlikely(!mr || !key))
		return NULL;
	atomic_fetch_add_explicit(&mr->users, 1,
				  memory_order_seq_cst); /* before the look at the key: close_door() */
	if (likely(atomic_load_explicit(&mr->key, memory_order_seq_cst) == key))
		return mr;
	mr_put(mr);
	return NULL;
}

void mr_put(struct mr *mr)
{
	/* release: our accesses are over before close_door() sees us gone */
	atomic_fetch_sub_explicit(&mr->users, 1, memory_order_release);
}

bool mr_invalidate(struct hca *hca, const struct pd *pd, uint32_t key)
{
	struct mr *mr = mr_get(hca, key);
	bool ok = mr && mr->invalidatable && mr->pd == pd;

	if (ok)
		atomic_store_explicit(&mr->key, 0, memory_order_seq_cst);
	if (mr)
		mr_put(mr);
	return ok;
}

bool mr_allows(const struct mr *mr, const struct pd *pd, uint64_t iova, uint64_t length, unsigned access)
{
	return mr->pd == pd && (mr->access & access) == access && iova >= mr->iova && length <= mr->length &&
	       iova - mr->iova <= mr->length - length;
}
