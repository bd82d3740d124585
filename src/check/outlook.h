/* SPDX-License-Identifier: BSD-2-Clause */
/* What the posts of a program so far will lead to: a CQ that overruns, a send queue that nothing frees, requests that
 * are flushed. */
#ifndef UROCE_CHECK_OUTLOOK_H
#define UROCE_CHECK_OUTLOOK_H

#include "check/objects.h"

struct outlook {
	const struct stack *failure; /* poll of an error that the program ignores; NULL: none */
	enum ibv_wc_status failed_status;
	uint64_t expected, entries; /* completions that the CQ expects, and its capacity */
	const struct stack *cq_made, *qp_made;
	uint32_t qpn;
	uint32_t depth; /* capacity of the send queue, if it is full and no request in it is signalled; else 0 */
};

/* Of the queues of `o`, whose completions go to `cq`; NULL: to none that is known. */
struct outlook outlook_of(const struct object *o, const struct object *cq) REQUIRES(objects_lock);
/* Reports what is wrong with it. Without locks. */
void outlook_report(const struct outlook *l, const struct stack *posted);

#endif
