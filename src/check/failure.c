/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/failure.h"

#include <infiniband/verbs.h>
#include <pthread.h>

#include "check/finding.h"
#include "check/objects.h"
#include "check/queues.h"
#include "check/stack.h"

static _Thread_local uint64_t polls; /* of this thread */

/* IBV_WC_WR_FLUSH_ERR follows a failure, or is intended. */
void failure_note(uint32_t qpn, enum ibv_wc_status status, uint32_t vendor_err)
{
	const struct stack *here = stack_here();
	struct queues *q;

	if (status == IBV_WC_WR_FLUSH_ERR)
		return;
	finding_count_failed(vendor_err);
	lock_take(&objects_lock);
	q = queues_of_number(qpn);
	if (q && !q->failure) {
		q->failure = here;
		q->failed_status = status;
		q->failed_by = pthread_self();
		q->failed_poll = polls;
	}
	lock_drop(&objects_lock);
}

/* The status may be looked at soon: by another thread, or by this one in the result of its last polls. */
bool failure_is_ignored(const struct queues *q)
{
	return q->failure && pthread_equal(q->failed_by, pthread_self()) && polls > q->failed_poll + 1;
}

void failure_polls(void)
{
	polls++;
}
