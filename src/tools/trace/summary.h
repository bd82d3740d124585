/* SPDX-License-Identifier: BSD-2-Clause */
/* The times of requests, each operation's steps over many of them. */
#ifndef UROCE_TOOLS_TRACE_SUMMARY_H
#define UROCE_TOOLS_TRACE_SUMMARY_H

#include <stdio.h>

#include "tools/trace/join.h"

/* The steps of the summary: from one milestone to another. */
struct span {
	const char *name; /* for people, and with _ for spaces in JSON */
	enum milestone from, to;
};
extern const struct span spans[];
extern const unsigned span_count;

/* One row of the summary. */
struct spread {
	uint32_t count;
	int64_t median, p99, min, max; /* ns */
};

/* The times of requests of one operation between two milestones. */
struct spread measure(const struct joined *j, const uint32_t *which, uint32_t count, uint32_t opcode,
		      const struct span *span);

/* Times per operation: each step's median and 99th percentile over these requests. */
void print_summary(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);

#endif
