/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_create_flow(3): steering rules of raw packet queue pairs. */
#include <stdlib.h>

#include "check/lifetime.h"
#include "check/objects.h"
#include "device/front.h"
#include "port/raw.h"
#include "verbs/context.h"
#include "verbs/table.h"

struct steered_flow {
	struct ibv_flow base; /* the application's handle; must be first */
	struct flow_rule rule;
};

static struct ibv_flow *create_flow(struct ibv_qp *base, struct ibv_flow_attr *attr)
{
	static _Atomic uint32_t handles;
	struct qp *qp = (struct qp *)base;
	struct steered_flow *f;
	int error;

	if (!base || !attr || !qp->loop.raw)
		return fail_null(EINVAL);
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->base.context = base->context;
	f->base.handle = atomic_fetch_add_explicit(&handles, 1, memory_order_relaxed);
	f->rule.qp = qp;
	error = flow_parse(&f->rule, attr) ?: -raw_add_rule(&f->rule);
	if (error) {
		free(f);
		return fail_null(error);
	}
	if (f->rule.counters)
		atomic_fetch_add_explicit(&f->rule.counters->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&qp->verbs.flows, 1, memory_order_relaxed);
	check_made(CHECK_FLOW, f, 0, base, f->rule.counters);
	return &f->base;
}

static int destroy_flow(struct ibv_flow *base)
{
	struct steered_flow *f = (struct steered_flow *)base;

	if (!f)
		return fail(EINVAL);
	check_gone(CHECK_FLOW, f);
	raw_remove_rule(&f->rule);
	if (f->rule.counters)
		atomic_fetch_sub_explicit(&f->rule.counters->users, 1, memory_order_release);
	atomic_fetch_sub_explicit(&f->rule.qp->verbs.flows, 1, memory_order_release);
	free(f);
	return 0;
}

void table_add_flow(struct verbs_context *v)
{
	v->ibv_create_flow = create_flow;
	v->ibv_destroy_flow = destroy_flow;
}
