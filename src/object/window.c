/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/window.h"

struct mr *window_create(struct pd *pd, enum ibv_mw_type type)
{
	struct hca *hca = pd->hca;
	struct mr *w = mr_alloc(pd, &hca->windows, HCA_MAX_MW);

	if (!w)
		return NULL;
	w->region = NULL;
	w->window = (struct ibv_mw){
		.context = pd->base.context,
		.pd = &pd->base,
		.rkey = mr_key(w, (uint8_t)hca_random(hca)),
		.handle = w->index,
		.type = type,
	};
	lock_take(&hca->window_lock);
	w->type = type;
	lock_drop(&hca->window_lock);
	return w;
}

/* Closes the window, so that its region may be deregistered. */
static void unbind(struct hca *hca, struct mr *w, enum gone_how how) REQUIRES(hca->window_lock)
{
	if (!w->region)
		return;
	mr_note_gone(w, atomic_load_explicit(&w->rkey, memory_order_relaxed), how, 0);
	mr_close(w);
	w->region->windows--;
	w->region = NULL;
}

void window_destroy(struct mr *w)
{
	struct hca *hca = w->pd->hca;

	lock_take(&hca->window_lock);
	unbind(hca, w, GONE_FREED);
	w->type = 0;
	w->window.handle = NO_HANDLE;
	lock_drop(&hca->window_lock);
	mr_free(w, &hca->windows);
}

/* IBTA 10.6.7.2.6: the rules for the region of a bind. */
static bool region_allows(const struct mr *mr, const struct pd *pd, const struct window_bind *b)
{
	unsigned writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	unsigned need = IBV_ACCESS_MW_BIND | (b->access & writes ? IBV_ACCESS_LOCAL_WRITE : 0);

	/* an offset into a zero-based region is taken for a mistake */
	return !(mr->access & IBV_ACCESS_ZERO_BASED) && mr_allows(mr, pd, b->address, b->length, need);
}

static bool object_window_allows(const struct mr *w, const struct pd *pd, const struct window_bind *b)
{
	if (!w->type || w->pd != pd) /* the window may have been freed since the request was posted */
		return false;
	if (w->type == IBV_MW_TYPE_1)
		return !(b->access & IBV_ACCESS_ZERO_BASED);
	return !w->region && b->length;
}

static void bind(struct hca *hca, struct mr *w, struct mr *region, uint64_t qp_serial, const struct window_bind *b)
	REQUIRES(hca->window_lock)
{
	unbind(hca, w, GONE_REBOUND);
	w->region = region;
	region->windows++;
	w->qp_serial = w->type == IBV_MW_TYPE_2 ? qp_serial : 0;
	w->iova = b->access & IBV_ACCESS_ZERO_BASED ? 0 : b->address;
	w->length = b->length;
	w->memory = mr_at(region, b->address);
	w->access = b->access & MR_REMOTE;
	mr_open(w, 0, mr_key(w, b->tag));
}

bool window_bind(struct hca *hca, const struct pd *pd, uint64_t qp_serial, const struct window_bind *b)
{
	struct mr *w = pool_at(&hca->mrs, b->window), *region = NULL;
	bool ok;

	if (!w)
		return false;
	lock_take(&hca->window_lock);
	ok = object_window_allows(w, pd, b);
	if (ok && b->length) {
		/* the lock keeps the region alive once its windows are counted: mr_deregister() */
		region = mr_get_local(hca, b->lkey);
		ok = region && region_allows(region, pd, b);
		if (ok)
			bind(hca, w, region, qp_serial, b);
		if (region)
			mr_put(region);
	} else if (ok) {
		unbind(hca, w, GONE_REBOUND);
	}
	lock_drop(&hca->window_lock);
	return ok;
}

bool window_invalidate(struct hca *hca, const struct pd *pd, uint64_t qp_serial, uint32_t key)
{
	struct mr *w = mr_get(hca, key);
	bool ok;

	if (!w)
		return false;
	mr_put(w);
	lock_take(&hca->window_lock);
	/* acquire pairs with mr_open(): the fields belong to this key */
	ok = atomic_load_explicit(&w->rkey, memory_order_acquire) == key && w->type == IBV_MW_TYPE_2 && w->pd == pd &&
	     w->qp_serial == qp_serial;
	if (ok)
		unbind(hca, w, GONE_INVALIDATED);
	lock_drop(&hca->window_lock);
	return ok;
}

struct mr *window_enter(struct mr *w, uint64_t qp_serial)
{
	struct mr *region = NULL;

	if (!w->qp_serial || w->qp_serial == qp_serial) {
		region = w->region;
		/* unbind() waits for users of the window; only then the region can be closed, and that waits for this
		 * hazard pointer */
		hazard_swap(w, region);
	} else {
		mr_put(w);
	}
	return region;
}
