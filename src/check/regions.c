/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/regions.h"

#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/hooks.h"
#include "check/buffers.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/pages.h"
#include "check/peers.h"
#include "check/queues.h"
#include "check/request.h"
#include "check/scope.h"
#include "check/stack.h"
#include "check/tuned.h"
#include "check/watch.h"
#include "memory/fault.h"
#include "object/mr.h"
#include "object/qp.h"

/* Stack of the post of a request that uses the key; NULL if there is none. */
static const struct stack *requests_use(struct queues *q, uint32_t lkey, bool *is_send) REQUIRES(objects_lock)
{
	struct list *const both[] = {&q->sends, &q->receives};

	for (size_t i = 0; i < ARRAY_SIZE(both); i++)
		list_each_safe (l, both[i]) {
			const struct request *r = container_of(l, struct request, link);

			for (int n = 0; n < r->sges; n++)
				if (r->sge[n].lkey == lkey && (r->cq || !r->is_send)) {
					*is_send = r->is_send;
					return r->posted;
				}
		}
	return NULL;
}

/* True if a QP of the SRQ may still take a receive. */
static bool srq_is_in_use(const void *srq) REQUIRES(objects_lock)
{
	for (const struct object *o = objects_next(NULL); o; o = objects_next(o))
		if (o->kind == CHECK_QP && o->uses[3] == srq && ((const struct qp *)o->object)->state == IBV_QPS_RTS)
			return true;
	return false;
}

static bool is_in_use(const struct object *o) REQUIRES(objects_lock)
{
	if (!o->queues)
		return false;
	return o->kind == CHECK_SRQ ? srq_is_in_use(o->object) : ((const struct qp *)o->object)->state == IBV_QPS_RTS;
}

static void check_in_flight(const struct ibv_mr *mr, const char *done)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "deregistered-in-flight",
			    .remedy = "poll the completions of all requests that use the region first",
			    .at = {{done, NULL}, {"posted", NULL}, {"registered", NULL}}};
	uint32_t lkey = mr->lkey;
	struct object *o;
	bool is_send = false;

	if (!check_wants(CHECK_HABITS))
		return;
	lock_take(&objects_lock);
	for (o = objects_next(NULL); o && !f.at[1].stack; o = objects_next(o))
		if (is_in_use(o))
			f.at[1].stack = requests_use(o->queues, lkey, &is_send);
	o = object_find(CHECK_MR, mr);
	f.at[2].stack = o ? o->made : NULL;
	lock_drop(&objects_lock);
	if (!f.at[1].stack)
		return;
	snprintf(f.text, sizeof(f.text), "a region is %s while a %s that uses it is outstanding", done,
		 is_send ? "send request" : "receive");
	f.at[0].stack = stack_here();
	finding_report(&f);
}

struct probing {
	const char *at;
	uint64_t length, step;
	volatile uint64_t done;
};

static void probe(void *arg)
{
	struct probing *p = arg;

	for (; p->done < p->length; p->done += p->step)
		(void)*(const volatile char *)(p->at + p->done);
}

void buffers_mapped(const struct ibv_mr *base)
{
	const struct mr *mr = (const struct mr *)base;
	struct finding f = {.class = CHECK_MAPPINGS,
			    .name = "unmapped-registered",
			    .remedy = "deregister the region before its memory is unmapped or freed",
			    .at = {{"deregistered", NULL}, {"registered", NULL}}};
	struct probing p = {.at = mr->memory, .length = mr->length};
	const struct object *o;

	if (!check_wants(CHECK_MAPPINGS) || mr_is_indirect(mr) || !mr->length)
		return;
	p.step = max_of(4096u, mr->length / PROBES);
	if (fault_try(probe, &p))
		return;
	lock_take(&objects_lock);
	o = object_find(CHECK_MR, mr);
	f.at[1].stack = o ? o->made : NULL;
	lock_drop(&objects_lock);
	if (!f.at[1].stack)
		return;
	snprintf(f.text, sizeof(f.text),
		 "the memory of a region of %" PRIu64
		 " bytes was unmapped before the region was deregistered: nothing is mapped at 0x%" PRIx64,
		 mr->length, (uint64_t)(uintptr_t)mr->memory + p.done);
	f.at[0].stack = stack_here();
	finding_report(&f);
}

/* A child of fork() shares the file descriptor of the device, by which the kernel knows the region. */
static void look_at_child(const struct ibv_mr *mr)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "deregistered-in-child",
		.remedy = "leave the objects of the parent alone in a child of fork(), and call _exit() or exec",
		.text = "a child of fork() deregisters a region that its parent has registered: the "
			"parent's adapter loses it",
		.at = {{"deregistered", NULL}, {"registered", NULL}}};
	const struct object *o;

	lock_take(&objects_lock);
	o = object_find(CHECK_MR, mr);
	f.at[1].stack = o ? o->made : NULL;
	lock_drop(&objects_lock);
	f.at[0].stack = o ? stack_here() : NULL;
	if (o && check_wants(CHECK_HABITS))
		finding_report(&f);
}

static void mr_ends(const struct ibv_mr *mr, const char *done)
{
	peers_settle();
	if (check_is_paused())
		return;
	pages_lift((uintptr_t)mr->addr, mr->length);
	lock_take(&objects_lock);
	watch_settle((uintptr_t)mr->addr, mr->length);
	lock_drop(&objects_lock);
	buffers_mapped(mr);
	check_in_flight(mr, done);
}

void check_deregisters(const struct ibv_mr *mr)
{
	if (hook_is_on(HOOK_CHILD))
		look_at_child(mr);
	mr_ends(mr, "deregistered");
}

void check_reregisters(const struct ibv_mr *mr)
{
	mr_ends(mr, "re-registered");
}

void check_registers(const void *memory, uint64_t length)
{
	pages_lift((uintptr_t)memory, length);
}
