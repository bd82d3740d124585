/* SPDX-License-Identifier: BSD-2-Clause */
/* What the posts of a program so far will lead to: a CQ that overruns, a send queue that nothing frees, requests that
 * are flushed. */
#ifndef UROCE_CHECK_OUTLOOK_H
#define UROCE_CHECK_OUTLOOK_H

#include "check/objects.h"

/* What the posts so far mean. */
struct outlook {
	const struct stack *failure; /* that was polled, and not seen; else NULL */
	enum ibv_wc_status failed_status;
	uint64_t expected, entries; /* of the CQ */
	const struct stack *cq_made, *qp_made;
	uint32_t qpn;
	uint32_t depth; /* of a send queue that is full, without one that is signalled; else 0 */
};

/* Of the queues of `o`, whose completions go to `cq`; NULL: to none that is known. */
struct outlook outlook_of(const struct object *o, const struct object *cq) REQUIRES(objects_lock);
/* Reports what is wrong with it. Without locks. */
void outlook_report(const struct outlook *l, const struct stack *posted);

#endif
