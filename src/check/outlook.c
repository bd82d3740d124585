/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/outlook.h"

#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>

#include "check/failure.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/queues.h"
#include "check/scope.h"

struct outlook outlook_of(const struct object *o, const struct object *cq)
{
	const struct queues *q = o->queues;
	struct outlook l = {.qp_made = o->made};

	if (cq && cq->watch) {
		l.expected = cq->watch->expected;
		l.entries = cq->size;
		l.cq_made = cq->made;
	}
	if (o->kind == CHECK_QP && q->send_count >= q->depth && !q->signalled && !q->signals_all) {
		l.depth = q->depth;
		l.qpn = ((const struct ibv_qp *)o->object)->qp_num;
	}
	if (failure_is_ignored(q)) {
		l.qpn = ((const struct ibv_qp *)o->object)->qp_num;
		l.failure = q->failure;
		l.failed_status = q->failed_status;
	}
	return l;
}

static void report_overrun(const struct outlook *l, const struct stack *posted)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "cq-too-small",
		.remedy = "create it with room for all requests that may be outstanding, or poll before posting more",
		.at = {{"posted", posted}, {"the completion queue was created", l->cq_made}}};

	snprintf(f.text, sizeof(f.text),
		 "a completion queue of %" PRIu64 " entries expects %" PRIu64
		 " completions: it overruns if they come before a poll",
		 l->entries, l->expected);
	finding_report(&f);
}

static void report_unsignalled(const struct outlook *l, const struct stack *posted)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "never-signalled",
		.remedy = "set IBV_SEND_SIGNALED in at least one of max_send_wr requests, and poll its completion",
		.at = {{"posted", posted}, {"the queue pair was created", l->qp_made}}};

	snprintf(f.text, sizeof(f.text),
		 "all %u requests that fit into the send queue of QP 0x%x are posted, and none is signalled: nothing "
		 "can "
		 "free it",
		 l->depth, l->qpn);
	finding_report(&f);
}

static void report_ignored(const struct outlook *l, const struct stack *posted)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "status-ignored",
		.remedy = "look at the status of each completion: a queue pair that has failed takes requests again "
			  "after RESET, INIT, RTR and RTS",
		.at = {{"posted", posted}, {"the completion with the error was polled", l->failure}}};

	snprintf(f.text, sizeof(f.text),
		 "QP 0x%x has failed, a completion with status %d (%s) was polled, and requests are still posted: they "
		 "will be flushed",
		 l->qpn, l->failed_status, ibv_wc_status_str(l->failed_status));
	finding_report(&f);
}

void outlook_report(const struct outlook *l, const struct stack *posted)
{
	if (!check_wants(CHECK_HABITS))
		return;
	if (l->expected > l->entries)
		report_overrun(l, posted);
	if (l->depth)
		report_unsignalled(l, posted);
	if (l->failure)
		report_ignored(l, posted);
}
