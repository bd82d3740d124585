/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains and their imports. */
#include "verbs/pd.h"

#include <stdlib.h>

#include "check/lifetime.h"
#include "check/objects.h"
#include "device/adapter.h"
#include "device/front.h"
#include "fault/inject.h"
#include "object/hca.h"
#include "object/pd.h"
#include "verbs/context.h"
#include "verbs/domain.h"

static _Atomic uint32_t pd_count;
struct lock pds_lock = LOCK_RANKED(PDS);
static struct list pds GUARDED_BY(pds_lock) = {&pds, &pds};

PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	static _Atomic uint32_t handles;
	struct context *c;
	struct pd *pd;

	if (inject_call(CALL_ibv_alloc_pd))
		return NULL;
	if (!context)
		return fail_null(EINVAL);
	c = context_of(context);
	if (!adapter_take(&pd_count, HCA_MAX_PD))
		return fail_null(ENOMEM);
	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		adapter_give(&pd_count);
		return NULL;
	}
	pd->base.context = context;
	pd->made_in = context;
	pd->base.handle = pd->handle = atomic_fetch_add_explicit(&handles, 1, memory_order_relaxed);
	pd->hca = c->hca;
	lock_take(&pds_lock);
	list_append(&pds, &pd->all);
	lock_drop(&pds_lock);
	atomic_fetch_add_explicit(&c->objects, 1, memory_order_relaxed);
	check_made(CHECK_PD, pd, 0, context);
	return &pd->base;
}

PUBLIC int ibv_dealloc_pd(struct ibv_pd *base)
{
	struct pd *pd = (struct pd *)base;
	int error = pd_check(base);
	bool busy;

	if (error)
		return fail(error);
	if (pd->is_parent)
		return dealloc_parent_domain(pd);
	if (pd->domain) { /* only the import is freed; the owner keeps the PD */
		ibv_unimport_pd(base);
		return 0;
	}
	lock_take(&pds_lock); /* so that it is not imported meanwhile */
	busy = atomic_load_explicit(&pd->users, memory_order_acquire);
	if (!busy)
		list_remove(&pd->all);
	lock_drop(&pds_lock);
	if (busy) {
		check_busy(CHECK_PD, base);
		return fail(EBUSY);
	}
	check_gone(CHECK_PD, base);
	atomic_fetch_sub_explicit(&context_of(base->context)->objects, 1, memory_order_release);
	adapter_give(&pd_count);
	free(pd);
	return 0;
}

void pds_each(void (*use)(struct pd *pd, void *arg), void *arg)
{
	lock_take(&pds_lock);
	list_each (l, &pds)
		use(container_of(l, struct pd, all), arg);
	lock_drop(&pds_lock);
}

/* The PD with this handle in contexts that may import it, with its use count raised; or NULL. */
static struct pd *pd_get(struct ibv_context *context, uint32_t handle)
{
	struct pd *found = NULL;

	lock_take(&pds_lock);
	list_each (l, &pds) {
		struct pd *pd = container_of(l, struct pd, all);

		if (pd->base.handle == handle && context_same(pd->base.context, context))
			found = pd;
	}
	if (found)
		atomic_fetch_add_explicit(&found->users, 1, memory_order_relaxed);
	lock_drop(&pds_lock);
	return found;
}

PUBLIC struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct pd *of = context ? pd_get(context, handle) : NULL, *pd;

	if (!of)
		return fail_null(context ? ENOENT : EINVAL);
	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		atomic_fetch_sub_explicit(&of->users, 1, memory_order_release);
		return NULL;
	}
	pd->base.context = context;
	pd->made_in = context;
	pd->base.handle = pd->handle = handle;
	pd->hca = of->hca;
	pd->domain = of;
	return &pd->base;
}

/* Objects that were created with the imported PD may remain. */
PUBLIC void ibv_unimport_pd(struct ibv_pd *base)
{
	struct pd *pd = (struct pd *)base;

	if (!pd || !pd->domain || pd->is_parent)
		return;
	atomic_fetch_sub_explicit(&pd->domain->users, 1, memory_order_release);
	free(pd);
}
