/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/mr.h"

#include <errno.h>

#include "base/clock.h"
#include "memory/export.h"
#include "memory/gpu.h"
#include "memory/share.h"
#include "memory/shareable.h"

static_assert(SHARE_FILES <= UINT8_MAX, "mr->file holds the number of one");

/* The keys that ended last. */
static struct mr_gone gone[MR_GONE_KEPT];
static uint32_t gone_count;
static struct lock gone_lock = LOCK_RANKED(KEY_FAULT);

/* Not if the lock is taken: a child of fork() may find it so. */
void mr_note_gone(const struct mr *mr, uint32_t rkey, enum gone_how how, uint32_t next)
{
	if (!lock_try(&gone_lock))
		return;
	gone[gone_count++ % MR_GONE_KEPT] =
		(struct mr_gone){mr->pd->hca, rkey, next, mr->iova, mr->length, clock_now(), how};
	lock_drop(&gone_lock);
}

bool mr_find_gone(const struct hca *hca, uint32_t key, struct mr_gone *found)
{
	bool is_found = false;

	if (!lock_try(&gone_lock))
		return false;
	for (uint32_t i = 0; i < MR_GONE_KEPT && !is_found; i++) {
		*found = gone[i];
		is_found = (found->rkey == key || found->rkey == (key ^ hca->keys.lkey)) && found->hca == hca;
	}
	lock_drop(&gone_lock);
	return is_found;
}

uint32_t mr_key(const struct mr *mr, uint8_t tag)
{
	return key_make(&mr->pd->hca->keys, mr->index, tag);
}

/* An rkey that differs from the last one, which must not give access any more. */
static uint32_t new_key(struct mr *mr)
{
	mr->tag += (uint8_t)(1 + hca_random(mr->pd->hca) % 255);
	return mr_key(mr, mr->tag);
}

/* ---- what local peers see of a region ---- */

/* True if the region is memory of this process. */
static bool is_memory(const struct mr *mr)
{
	return mr->kind == MEMORY_PLAIN || mr->kind == MEMORY_PAGED;
}

static void show_open(struct mr *mr, const struct shareable *where, uint32_t file)
{
	mr->file = (uint8_t)file;
	share_open_region(mr->pd->hca->share, mr->index, mr->base.rkey,
			  &(struct share_region){
				  .access = mr->access & (MR_REMOTE | IBV_ACCESS_LOCAL_WRITE),
				  .pd = (uintptr_t)mr->pd,
				  .iova = mr->iova,
				  .length = mr->length,
				  .address = (uintptr_t)mr->memory,
				  .offset = where->offset,
				  .mapped = where->mapped,
				  .skip = where->skip,
				  .file = file,
			  });
}

static void show_gpu(struct mr *mr)
{
	struct exported e;

	export_make_gpu(mr->pd->hca->share, mr->handle.gpu, (uintptr_t)mr->memory, mr->length, &e);
	if (e.file)
		show_open(mr, &(struct shareable){e.offset, e.mapped, 0}, e.file);
}

static void hide_gpu(struct mr *mr)
{
	struct share *s = mr->pd->hca->share;

	if (!mr->file)
		return;
	share_close_region(s, mr->index);
	share_settle(s);
	export_release(s, mr->file);
	mr->file = 0;
}

/* Publishes a region to local peers: memory/share.h. */
static void show_region(struct mr *mr)
{
	struct share *s = mr->pd->hca->share;
	struct shareable where;
	struct exported exported = {0};

	mr->file = 0;
	if (!s)
		return;
	if (mr->kind == MEMORY_GPU)
		show_gpu(mr);
	if (!is_memory(mr))
		return;
	/* the driver of a GPU may have pinned pages, which then must not move */
	shareable_make(s->arena, mr->memory, mr->length, !mr_is_indirect(mr) && !gpu_is_loaded(), &where);
	/* memory that may not be present is not for one-sided operations of peers: the queue handles it */
	if (mr_is_indirect(mr))
		return;
	if (!where.mapped && (mr->access & IBV_ACCESS_LOCAL_WRITE)) {
		export_make(s, mr->memory, mr->length, &exported);
		where = (struct shareable){exported.offset, exported.mapped, 0};
	}
	show_open(mr, &where, exported.file);
}

/* Withdraws a region; waits until no local peer is inside. */
static void hide_region(struct mr *mr)
{
	struct share *s = mr->pd->hca->share;
	const struct share_region *r;
	struct shareable where = {0};

	if (!s)
		return;
	if (mr->kind == MEMORY_GPU)
		hide_gpu(mr);
	if (!is_memory(mr))
		return;
	if (!mr_is_indirect(mr)) {
		share_close_region(s, mr->index);
		share_settle(s);
		r = share_region(s, mr->index);
		if (r && !mr->file)
			where = (struct shareable){r->offset, r->mapped, r->skip};
	}
	export_release(s, mr->file);
	mr->file = 0;
	shareable_release(s->arena, mr->memory, mr->length, &where);
}

/* Withdraws a region for a while. Does not wait: show_settle(). */
static void suspend_region(struct mr *mr)
{
	if (mr->pd->hca->share)
		share_close_region(mr->pd->hca->share, mr->index);
}

/* ---- registration ---- */

static void open_with(struct mr *mr, uint32_t rkey)
{
	mr->base.rkey = rkey;
	mr->base.lkey = rkey ^ mr->pd->hca->keys.lkey;
	mr_open(mr, mr->base.lkey, rkey);
}

static void mr_fill(struct mr *mr, uint32_t rkey, struct pd *pd, void *address, uint64_t length, uint64_t iova,
		    unsigned access)
{
	mr->pd = pd_domain(pd);
	mr->iova = iova;
	mr->length = length;
	mr->memory = address;
	mr->access = access;
	mr->base.context = pd->base.context;
	mr->base.pd = &pd->base;
	mr->base.addr = address;
	mr->base.length = length;
	open_with(mr, rkey);
	show_region(mr);
}

void mr_open(struct mr *mr, uint32_t lkey, uint32_t rkey)
{
	/* pairs with the load in mr_get(): a thread that sees the key sees the other fields */
	atomic_store_explicit(&mr->lkey, lkey, memory_order_seq_cst);
	atomic_store_explicit(&mr->rkey, rkey, memory_order_seq_cst);
}

/* No look-up begins from now on. */
static void hide_keys(struct mr *mr)
{
	/* sequentially consistent, with mr_get(): either mr_get() sees that the key is gone, or hazard_await() sees the
	 * hazard pointer */
	atomic_store_explicit(&mr->lkey, 0, memory_order_seq_cst);
	atomic_store_explicit(&mr->rkey, 0, memory_order_seq_cst);
}

void mr_close(struct mr *mr)
{
	hide_keys(mr);
	hazard_await(mr);
}

struct mr *mr_alloc(struct pd *pd, _Atomic uint32_t *count, uint32_t limit)
{
	struct hca *hca = pd->hca;
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
	mr->pd = pd_domain(pd);
	mr->index = index;
	return mr;
}

void mr_free(struct mr *mr, _Atomic uint32_t *count)
{
	atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
	if (!hca_is_inert(mr->pd->hca))
		pool_free(&mr->pd->hca->mrs, mr->index);
}

struct mr *mr_register(struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access)
{
	return mr_register_kind(pd, address, length, iova, access, mr_kind_for(access), (union memory_handle){0});
}

struct mr *mr_register_kind(struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access,
			    enum memory_kind kind, union memory_handle handle)
{
	struct mr *mr = mr_alloc(pd, &pd->hca->regions, HCA_MAX_MR);

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

/* Closes a region. `next`: its rkey from now on; 0: it is deregistered. -EBUSY: a window is bound to it. */
static int close_region(struct mr *mr, uint32_t next)
{
	bool busy;

	lock_take(&mr->pd->hca->window_lock);
	busy = mr->windows;
	if (!busy) /* under the lock, so that no window is bound after the check */
		hide_keys(mr);
	lock_drop(&mr->pd->hca->window_lock);
	if (busy)
		return -EBUSY;
	if (next != mr->base.rkey)
		mr_note_gone(mr, mr->base.rkey, next ? GONE_REREGISTERED : GONE_DEREGISTERED, next);
	mr_close(mr);
	hide_region(mr);
	return 0;
}

int mr_reregister(struct mr *mr, struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access)
{
	bool moves = address != mr->memory || length != mr->length || iova != mr->iova;
	uint32_t rkey = moves ? new_key(mr) : mr->base.rkey;
	int err = close_region(mr, rkey);

	if (err)
		return err;
	mr->kind = mr_kind_for(access);
	mr_fill(mr, rkey, pd, address, length, iova, access);
	return 0;
}

int mr_deregister(struct mr *mr)
{
	int err = close_region(mr, 0);

	if (!err) {
		mr->base.handle = NO_HANDLE;
		mr_free(mr, &mr->pd->hca->regions);
	}
	return err;
}

void mr_revoke(struct hca *hca, uint32_t key)
{
	struct mr *mr = mr_get(hca, key) ?: mr_get_local(hca, key);

	if (!mr)
		return;
	if (!mr->type) {
		hide_keys(mr);
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
	open_with(mr, new_key(mr));
	if (mr->pd->hca->share)
		share_reopen_region(mr->pd->hca->share, mr->index, mr->base.rkey);
}
