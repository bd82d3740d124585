/* SPDX-License-Identifier: BSD-2-Clause */
/* Times of the steps of many requests, per operation. */
#ifndef UROCE_TOOLS_TRACE_SUMMARY_H
#define UROCE_TOOLS_TRACE_SUMMARY_H

#include <stdio.h>

#include "tools/trace/join.h"

/* A step of the summary, between two milestones. */
struct span {
	const char *name; /* for people; in JSON with _ for spaces */
	enum milestone from, to;
};
extern const struct span spans[];
extern const unsigned span_count;

/* A row of the summary. */
struct spread {
	uint32_t count;
	int64_t median, p99, min, max; /* ns */
};

/* Times between two milestones, over the requests of one operation. */
struct spread measure(const struct joined *j, const uint32_t *which, uint32_t count, uint32_t opcode,
		      const struct span *span);

/* Prints the median and the 99th percentile of each step, per operation. */
void print_summary(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);

#endif
