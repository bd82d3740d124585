/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/qp.h"

#include <infiniband/verbs.h>
#include <stdio.h>

#include "check/across.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/outstanding.h"
#include "check/peers.h"
#include "check/queues.h"
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
	across_heard(); /* the peer's numbers came by other means, which may have told more */
	lock_drop(&objects_lock);
}

void check_destroys_qp(const struct ibv_qp *base)
{
	const struct qp *qp = (const struct qp *)base;
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "destroyed-outstanding",
		.remedy = "poll the completions first; or move the queue pair to ERR, and poll until all are flushed"};
	const struct stack *posted = NULL;
	uint32_t count = 0;
	struct object *o;

	if (check_is_paused() || !check_wants(CHECK_HABITS) || qp->state != IBV_QPS_RTS)
		return;
	lock_take(&objects_lock);
	o = queues_find(CHECK_QP, base);
	if (o)
		list_each_safe (l, &o->queues->sends) {
			const struct request *r = container_of(l, struct request, link);

			if (r->cq && !count++)
				posted = r->posted;
		}
	lock_drop(&objects_lock);
	if (!count)
		return;
	snprintf(f.text, sizeof(f.text),
		 "QP 0x%x is destroyed in RTS before the completion of %u send request%s was polled: "
		 "it is not known whether %s done",
		 base->qp_num, count, count > 1 ? "s" : "", count > 1 ? "they were" : "it was");
	f.at[0].title = "destroyed";
	f.at[0].stack = stack_here();
	f.at[1].title = "the first of them was posted";
	f.at[1].stack = posted;
	finding_report(&f);
}
