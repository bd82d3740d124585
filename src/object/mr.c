/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/mr.h"

#include <errno.h>

#include "object/key_fault.h"
#include "object/show.h"

uint32_t mr_key(const struct mr *mr, uint8_t tag)
{
	return key_make(&mr->hca->keys, mr->index, tag);
}

/* A key that differs from the last one, which must not give access any more. */
static uint32_t new_key(struct mr *mr)
{
	mr->tag += (uint8_t)(1 + hca_random(mr->hca) % 255);
	return mr_key(mr, mr->tag);
}

static void mr_fill(struct mr *mr, uint32_t key, struct pd *pd, void *address, uint64_t length, uint64_t iova,
		    unsigned access)
{
	mr->pd = pd_domain(pd);
	mr->iova = iova;
	mr->length = length;
	mr->memory = address;
	mr->access = access | MR_LOCAL;
	mr->base.context = pd->base.context;
	mr->base.pd = &pd->base;
	mr->base.addr = address;
	mr->base.length = length;
	mr->base.lkey = mr->base.rkey = key;
	mr_open(mr, key);
	show_region(mr);
}

void mr_open(struct mr *mr, uint32_t key)
{
	/* pairs with the load in mr_get(): a thread that sees the key sees the other fields */
	atomic_store_explicit(&mr->key, key, memory_order_seq_cst);
}

void mr_close(struct mr *mr)
{
	/* sequentially consistent, with mr_get(): either mr_get() sees that the key is gone, or hazard_await() sees the
	 * hazard pointer */
	atomic_store_explicit(&mr->key, 0, memory_order_seq_cst);
	hazard_await(mr);
}

struct mr *mr_alloc(struct hca *hca, _Atomic uint32_t *count, uint32_t limit)
{
	struct mr *mr = NULL;
	uint32_t index;

	/* relaxed: only a count. The index with which key_make() gives 0 is allocated and never used, so that no key is
	 * 0 */
	if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < limit)
		do
			mr = pool_alloc(&hca->mrs, &index);
		while (mr && key_make(&hca->keys, index, 0) == 0);
	if (!mr) {
		atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
		errno = ENOMEM;
		return NULL;
	}
	mr->hca = hca;
	mr->index = index;
	return mr;
}

void mr_free(struct mr *mr, _Atomic uint32_t *count)
{
	atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
	if (!hca_is_inert(mr->hca))
		pool_free(&mr->hca->mrs, mr->index);
}

struct mr *mr_register(struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access)
{
	return mr_register_kind(pd, address, length, iova, access, mr_kind_for(access), (union memory_handle){0});
}

struct mr *mr_register_kind(struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access,
			    enum memory_kind kind, union memory_handle handle)
{
	struct mr *mr = mr_alloc(pd->hca, &pd->hca->regions, HCA_MAX_MR);

	if (!mr)
		return NULL;
	mr->base.handle = mr->index;
	mr->backing = NULL;
	mr->kind = kind;
	mr->number = atomic_fetch_add_explicit(&pd->hca->registered, 1, memory_order_relaxed) + 1;
	mr->handle = handle;
	mr_fill(mr, new_key(mr), pd, address, length, iova, access);
	return mr;
}

/* Closes a region. -EBUSY: a window is bound to it. */
static int close_region(struct mr *mr)
{
	bool busy;

	lock_take(&mr->hca->window_lock);
	busy = mr->windows;
	if (!busy) /* under the lock, so that no window is bound after the check */
		atomic_store_explicit(&mr->key, 0, memory_order_seq_cst);
	lock_drop(&mr->hca->window_lock);
	if (busy)
		return -EBUSY;
	key_gone(mr, mr->base.lkey);
	mr_close(mr);
	hide_region(mr);
	return 0;
}

int mr_reregister(struct mr *mr, struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access)
{
	bool moves = address != mr->memory || length != mr->length || iova != mr->iova;
	int err = close_region(mr);

	if (err)
		return err;
	mr->kind = mr_kind_for(access);
	mr_fill(mr, moves ? new_key(mr) : mr->base.lkey, pd, address, length, iova, access);
	return 0;
}

int mr_deregister(struct mr *mr)
{
	int err = close_region(mr);

	if (!err) {
		mr->base.handle = NO_HANDLE;
		mr_free(mr, &mr->hca->regions);
	}
	return err;
}

void mr_revoke(struct hca *hca, uint32_t key)
{
	struct mr *mr = mr_get(hca, key);

	if (!mr)
		return;
	if (mr->access & MR_LOCAL) { /* no window */
		atomic_store_explicit(&mr->key, 0, memory_order_seq_cst);
		suspend_region(mr);
	}
	mr_put(mr);
}

void mr_suspend(struct mr *mr)
{
	mr_close(mr);
	suspend_region(mr);
}

void mr_resume(struct mr *mr)
{
	mr->base.lkey = mr->base.rkey = new_key(mr);
	mr_open(mr, mr->base.rkey);
	resume_region(mr);
}
