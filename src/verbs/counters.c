/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_create_counters(3): counters of flows. The counters are attached before the flow that uses them is created. */
#include <stdlib.h>
#include <string.h>

#include "base/msan.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "device/front.h"
#include "object/rules.h"
#include "verbs/context.h"
#include "verbs/table.h"

static struct ibv_counters *create_counters(struct ibv_context *context, struct ibv_counters_init_attr *attr)
{
	struct flow_counters *c;

	if (!attr || attr->comp_mask)
		return fail_null(attr ? EOPNOTSUPP : EINVAL);
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	lock_set_rank(&c->lock, RANK_COUNTERS);
	c->base.context = context;
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	check_made(CHECK_COUNTERS, c, 0, context);
	return &c->base;
}

static int destroy_counters(struct ibv_counters *base)
{
	struct flow_counters *c = (struct flow_counters *)base;

	if (atomic_load_explicit(&c->users, memory_order_acquire)) {
		check_busy(CHECK_COUNTERS, c);
		return fail(EBUSY);
	}
	check_gone(CHECK_COUNTERS, c);
	atomic_fetch_sub_explicit(&context_of(base->context)->objects, 1, memory_order_release);
	free(c);
	return 0;
}

/* The flow names its counters when it is created, so `flow` is NULL here, as with adapters. */
static int attach_counters(struct ibv_counters *base, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
{
	struct flow_counters *c = (struct flow_counters *)base;
	int error = 0;

	if (flow || !attr || attr->comp_mask || attr->counter_desc > IBV_COUNTER_BYTES)
		return fail(attr ? ENOTSUP : EINVAL);
	lock_take(&c->lock);
	if (c->points == ARRAY_SIZE(c->point)) {
		error = ENOMEM;
	} else {
		c->point[c->points].index = attr->index;
		c->point[c->points].bytes = attr->counter_desc == IBV_COUNTER_BYTES;
		c->points++;
	}
	lock_drop(&c->lock);
	return error ? fail(error) : 0;
}

static int read_counters(struct ibv_counters *base, uint64_t *value, uint32_t count, uint32_t flags)
{
	struct flow_counters *c = (struct flow_counters *)base;
	uint64_t packets = atomic_load_explicit(&c->packets, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);

	if (!value || !count || (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED))
		return fail(EINVAL);
	memset(value, 0, count * sizeof(*value));
	msan_wrote(value, count * sizeof(*value));
	lock_take(&c->lock);
	for (uint32_t i = 0; i < c->points; i++)
		if (c->point[i].index < count)
			value[c->point[i].index] += c->point[i].bytes ? bytes : packets;
	lock_drop(&c->lock);
	return 0;
}

void table_add_counters(struct verbs_context *v)
{
	v->create_counters = create_counters;
	v->destroy_counters = destroy_counters;
	v->attach_counters_point_flow = attach_counters;
	v->read_counters = read_counters;
}
