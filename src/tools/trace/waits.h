/* SPDX-License-Identifier: BSD-2-Clause */
/* What was not finished when a trace ended: the tables of trace_file.h that no record replaces. One thread. */
#ifndef UROCE_TOOLS_TRACE_WAITS_H
#define UROCE_TOOLS_TRACE_WAITS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/trace_file.h"

struct waits {
	const char *name; /* of the file */
	char host[64], program[64];
	uint32_t pid;
	bool runs;    /* it is a process of this machine that runs */
	bool ended;   /* it was one since this machine booted, and there is none with that number any more */
	uint64_t now; /* ns, CLOCK_MONOTONIC of its machine: now, or when it recorded last */
	int64_t wall; /* ns: this + a time is since 1970 */
	struct pending_qp *qp;
	struct pending_request *request; /* in order of posting */
	size_t qps, requests;
	uint32_t lost; /* that the tables had no room for */
};

/* NULL, or a message for the user. Both leave *w to be passed to waits_free(). */
const char *waits_load(const char *name, struct waits *w);
void waits_free(struct waits *w);

#endif
