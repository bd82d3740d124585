/* SPDX-License-Identifier: BSD-2-Clause */
/* Thread domains and parent domains. Any thread may use any object, so a thread domain has no effect: the application
 * only promises to use its objects from one thread. A parent domain provides the memory of its queues. */
#include "verbs/domain.h"

#include <stdlib.h>

#include "check/lifetime.h"
#include "check/objects.h"
#include "device/front.h"
#include "fault/inject.h"
#include "object/pd.h"
#include "verbs/context.h"
#include "verbs/table.h"

struct td {
	struct ibv_td base; /* the application's handle; must be first */
	_Atomic uint32_t users;
};

struct parent_domain {
	struct pd pd;  /* must be first */
	struct td *td; /* NULL: none */
};

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct td *td;

	if (!attr || attr->comp_mask)
		return fail_null(attr ? EOPNOTSUPP : EINVAL);
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->base.context = context;
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	check_made(CHECK_TD, td, 0, context);
	return &td->base;
}

static int dealloc_td(struct ibv_td *base)
{
	struct td *td = (struct td *)base;

	if (!td)
		return fail(EINVAL);
	if (atomic_load_explicit(&td->users, memory_order_acquire)) {
		check_busy(CHECK_TD, td);
		return fail(EBUSY);
	}
	check_gone(CHECK_TD, td);
	atomic_fetch_sub_explicit(&context_of(base->context)->objects, 1, memory_order_release);
	free(td);
	return 0;
}

static int check_parent(struct ibv_context *context, const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (!attr || pd_check(attr->pd) || attr->pd->context != context || (attr->td && attr->td->context != context))
		return EINVAL;
	if (attr->comp_mask & ~known)
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) && (!attr->alloc || !attr->free))
		return EINVAL;
	return 0;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	int error = check_parent(context, attr);
	struct parent_domain *p;
	struct pd *of;

	if (inject_call(CALL_ibv_alloc_pd))
		return NULL;
	if (error)
		return fail_null(error);
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	of = (struct pd *)attr->pd;
	p->pd.base = *attr->pd;
	p->pd.made_in = context;
	p->pd.handle = attr->pd->handle;
	p->pd.hca = of->hca;
	p->pd.domain = pd_domain(of);
	p->pd.is_parent = true;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		p->pd.alloc = attr->alloc;
		p->pd.free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		p->pd.context = attr->pd_context;
	p->td = (struct td *)attr->td;
	atomic_fetch_add_explicit(&p->pd.domain->users, 1, memory_order_relaxed);
	if (p->td)
		atomic_fetch_add_explicit(&p->td->users, 1, memory_order_relaxed);
	check_made(CHECK_PARENT, &p->pd, 0, attr->pd, p->td);
	return &p->pd.base;
}

int dealloc_parent_domain(struct pd *pd)
{
	struct parent_domain *p = container_of(pd, struct parent_domain, pd);

	if (atomic_load_explicit(&pd->users, memory_order_acquire)) {
		check_busy(CHECK_PARENT, pd);
		return fail(EBUSY);
	}
	check_gone(CHECK_PARENT, pd);
	if (p->td)
		atomic_fetch_sub_explicit(&p->td->users, 1, memory_order_release);
	atomic_fetch_sub_explicit(&pd->domain->users, 1, memory_order_release);
	free(p);
	return 0;
}

void table_add_domain(struct verbs_context *v)
{
	v->alloc_td = alloc_td;
	v->dealloc_td = dealloc_td;
	v->alloc_parent_domain = alloc_parent_domain;
}
