/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/objects.h"

#define BUCKETS 4096

const struct kind_words check_kinds[CHECK_KINDS] = {
	[CHECK_CONTEXT] = {"leak-context", "device context", "device contexts", "opened", "ibv_close_device()"},
	[CHECK_PD] = {"leak-pd", "protection domain", "protection domains", "allocated", "ibv_dealloc_pd()"},
	[CHECK_MR] = {"leak-region", "memory region", "memory regions", "registered", "ibv_dereg_mr()"},
	[CHECK_CQ] = {"leak-cq", "completion queue", "completion queues", "created", "ibv_destroy_cq()"},
	[CHECK_QP] = {"leak-qp", "queue pair", "queue pairs", "created", "ibv_destroy_qp() or rdma_destroy_qp()"},
	[CHECK_SRQ] = {"leak-srq", "shared receive queue", "shared receive queues", "created", "ibv_destroy_srq()"},
	[CHECK_AH] = {"leak-ah", "address handle", "address handles", "created", "ibv_destroy_ah()"},
	[CHECK_MW] = {"leak-window", "memory window", "memory windows", "allocated", "ibv_dealloc_mw()"},
	[CHECK_CHANNEL] = {"leak-channel", "completion channel", "completion channels", "created",
			   "ibv_destroy_comp_channel()"},
	[CHECK_ID] = {"leak-id", "rdma_cm id", "rdma_cm ids", "created", "rdma_destroy_id() or rdma_destroy_ep()"},
	[CHECK_EVENT_CHANNEL] = {"leak-event-channel", "event channel", "event channels", "created",
				 "rdma_destroy_event_channel()"},
	[CHECK_PARENT] = {"leak-parent-domain", "parent domain", "parent domains", "allocated", "ibv_dealloc_pd()"},
	[CHECK_TD] = {"leak-thread-domain", "thread domain", "thread domains", "allocated", "ibv_dealloc_td()"},
	[CHECK_DM] = {"leak-dm", "piece of device memory", "pieces of device memory", "allocated", "ibv_free_dm()"},
	[CHECK_XRCD] = {"leak-xrcd", "XRC domain", "XRC domains", "opened", "ibv_close_xrcd()"},
	[CHECK_WQ] = {"leak-wq", "work queue", "work queues", "created", "ibv_destroy_wq()"},
	[CHECK_WQ_TABLE] = {"leak-wq-table", "table of work queues", "tables of work queues", "created",
			    "ibv_destroy_rwq_ind_table()"},
	[CHECK_FLOW] = {"leak-flow", "flow", "flows", "created", "ibv_destroy_flow()"},
	[CHECK_COUNTERS] = {"leak-counters", "set of counters", "sets of counters", "created",
			    "ibv_destroy_counters()"},
};
static struct object *objects[BUCKETS];
struct lock objects_lock = LOCK_RANKED(CHECK_OBJECTS);

static struct object **object_bucket(enum check_kind kind, const void *object)
{
	return &objects[((uintptr_t)object >> 4 ^ (uintptr_t)object >> 16 ^ (uintptr_t)kind << 8) % BUCKETS];
}

static struct object **object_link(enum check_kind kind, const void *object)
{
	struct object **link = object_bucket(kind, object);

	while (*link && ((*link)->object != object || (*link)->kind != kind))
		link = &(*link)->next;
	return link;
}

struct object *object_find(enum check_kind kind, const void *object)
{
	return *object_link(kind, object);
}

struct object *objects_next(const struct object *o)
{
	size_t bucket = o ? (size_t)(object_bucket(o->kind, o->object) - objects) + 1 : 0;

	if (o && o->next)
		return o->next;
	while (bucket < BUCKETS && !objects[bucket])
		bucket++;
	return bucket < BUCKETS ? objects[bucket] : NULL;
}

void object_add(struct object *o)
{
	struct object **bucket = object_bucket(o->kind, o->object);

	o->next = *bucket;
	*bucket = o;
}

struct object *object_remove(enum check_kind kind, const void *object)
{
	struct object **link = object_link(kind, object), *o = *link;

	if (o)
		*link = o->next;
	return o;
}
