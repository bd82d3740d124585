/* SPDX-License-Identifier: BSD-2-Clause */
/* Expected failures: a CQ that will overrun, a send queue that nothing frees, requests that will be flushed. */
#ifndef UROCE_CHECK_OUTLOOK_H
#define UROCE_CHECK_OUTLOOK_H

#include "check/objects.h"

struct outlook {
	const struct stack *failure; /* poll of an error that the program ignores; NULL: none */
	enum ibv_wc_status failed_status;
	uint64_t expected, entries; /* completions that the CQ expects; its capacity */
	const struct stack *cq_made, *qp_made;
	uint32_t qpn;
	uint32_t depth; /* capacity of a full send queue without a signalled request; else 0 */
};

/* Outlook of the queues of `o`, whose completions go to `cq` or, if NULL, to no known CQ. */
struct outlook outlook_of(const struct object *o, const struct object *cq) REQUIRES(objects_lock);
/* Reports each expected failure. Without locks. */
void outlook_report(const struct outlook *l, const struct stack *posted);

#endif
