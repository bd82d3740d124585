/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/pd.h"

#include <stdlib.h>

#include "verbs/context.h"

static _Atomic uint32_t pd_count;

PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	static _Atomic uint32_t handles;
	struct context *c;
	struct pd *pd;

	if (!context)
		return fail_null(EINVAL);
	c = context_of(context);
	/* relaxed: only the number counts */
	if (atomic_fetch_add_explicit(&pd_count, 1, memory_order_relaxed) >= HCA_MAX_PD)
		goto err;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		goto err;
	pd->base.context = context;
	pd->base.handle = atomic_fetch_add_explicit(&handles, 1, memory_order_relaxed);
	pd->hca = c->hca;
	atomic_fetch_add_explicit(&c->objects, 1, memory_order_relaxed);
	return &pd->base;

err:
	atomic_fetch_sub_explicit(&pd_count, 1, memory_order_relaxed);
	return fail_null(ENOMEM);
}

PUBLIC int ibv_dealloc_pd(struct ibv_pd *base)
{
	struct pd *pd = (struct pd *)base;

	if (!pd)
		return fail(EINVAL);
	if (atomic_load_explicit(&pd->users, memory_order_acquire))
		return fail(EBUSY);
	atomic_fetch_sub_explicit(&context_of(base->context)->objects, 1, memory_order_release);
	atomic_fetch_sub_explicit(&pd_count, 1, memory_order_relaxed);
	free(pd);
	return 0;
}
