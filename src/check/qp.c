/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/qp.h"

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/yield.h"
#include "check/finding.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "check/outstanding.h"
#include "check/peers.h"
#include "check/queues.h"
#include "check/races.h"
#include "check/request.h"
#include "check/scope.h"
#include "check/stack.h"
#include "object/qp.h"

void check_forget_requests(const void *qp)
{
	struct object *o;

	if (check_is_paused())
		return;
	lock_take(&objects_lock);
	o = object_find(CHECK_QP, qp);
	if (o && o->queues)
		requests_forget(o->queues);
	lock_drop(&objects_lock);
}

void check_moved(const struct ibv_qp *qp)
{
	struct object *o;

	peers_settle();
	if (check_is_paused())
		return;
	lock_take(&objects_lock);
	o = object_find(CHECK_QP, qp);
	if (o && o->queues)
		o->queues->failure = NULL;
	if (check_wants(CHECK_RACES))
		races_moved((const struct qp *)qp);
	lock_drop(&objects_lock);
}

/* Counts signalled sends that were not polled: all of a queue, or those with an address handle. `posted` gets the stack
 * of the first. */
static uint32_t count_outstanding(const struct queues *q, const void *ah, const struct stack **posted)
	REQUIRES(objects_lock)
{
	uint32_t count = 0;

	list_each_safe (l, (struct list *)&q->sends) {
		const struct request *r = container_of(l, struct request, link);

		if (r->cq && (!ah || r->ah == ah) && !count++)
			*posted = r->posted;
	}
	return count;
}

static void report_outstanding(struct finding *f, const char *done, const struct stack *posted)
{
	f->class = CHECK_HABITS;
	f->name = "destroyed-outstanding";
	f->at[0].title = done;
	f->at[0].stack = stack_here();
	f->at[1].title = "the first of them was posted";
	f->at[1].stack = posted;
	finding_report(f);
}

void check_ends_qp(const struct ibv_qp *base, enum ibv_qp_state state, const char *done)
{
	struct finding f = {
		.remedy = "poll the completions first; or move the queue pair to ERR, and poll until all are flushed"};
	const struct stack *posted = NULL;
	const struct object *o;
	uint32_t count;

	if (check_is_paused() || !check_wants(CHECK_HABITS) || state != IBV_QPS_RTS)
		return;
	lock_take(&objects_lock);
	o = queues_find(CHECK_QP, base);
	count = o ? count_outstanding(o->queues, NULL, &posted) : 0;
	lock_drop(&objects_lock);
	if (!count)
		return;
	snprintf(f.text, sizeof(f.text),
		 "QP 0x%x, in RTS, is %s before the completion of %u send request%s was polled: "
		 "it is not known whether %s done",
		 base->qp_num, done, count, count > 1 ? "s" : "", count > 1 ? "they were" : "it was");
	report_outstanding(&f, done, posted);
}

void check_destroys_ah(const struct ibv_ah *ah)
{
	struct finding f = {.remedy = "poll the completions of all datagrams that use the address handle first"};
	const struct stack *posted = NULL;
	uint32_t count = 0;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	lock_take(&objects_lock);
	for (const struct object *o = objects_next(NULL); o; o = objects_next(o))
		if (o->kind == CHECK_QP && o->queues && ((const struct qp *)o->object)->state == IBV_QPS_RTS)
			count += count_outstanding(o->queues, ah, &posted);
	lock_drop(&objects_lock);
	if (!count)
		return;
	snprintf(f.text, sizeof(f.text),
		 "an address handle is destroyed before the completion of %u send request%s that use%s it was polled",
		 count, count > 1 ? "s" : "", count > 1 ? "" : "s");
	report_outstanding(&f, "destroyed", posted);
}

void check_destroys_cq(const struct ibv_cq *cq)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "destroyed-in-use",
			    .remedy = "let the threads that poll it end first",
			    .text = "the completion queue is destroyed while another thread polls it",
			    .at = {{"destroyed at", NULL}, {"the completion queue was created", NULL}}};
	const struct object *o;
	struct watch *w;
	bool polled;

	if (check_is_paused())
		return;
	lock_take(&objects_lock);
	o = object_find(CHECK_CQ, cq);
	w = o ? o->watch : NULL;
	polled = w && atomic_fetch_add_explicit(&w->pollers, 1, memory_order_relaxed); /* so that it is not freed */
	f.at[1].stack = o ? o->made : NULL;
	lock_drop(&objects_lock);
	if (!w)
		return;
	f.at[0].stack = stack_here();
	if (polled && check_wants(CHECK_HABITS))
		finding_report(&f);
	check_remove(CHECK_CQ, cq);
	/* acquire: pairs with poll_ends() */
	while (atomic_load_explicit(&w->pollers, memory_order_acquire) > 1)
		processor_yield();
	free(w);
}
