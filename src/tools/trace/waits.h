/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests not finished at the end of a trace: tables of trace_file.h that no record replaces. One thread. */
#ifndef UROCE_TOOLS_TRACE_WAITS_H
#define UROCE_TOOLS_TRACE_WAITS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/trace_file.h"

struct waits {
	const char *name; /* name of the file */
	char host[64], program[64];
	uint32_t pid;
	bool runs;    /* a running process of this machine */
	bool ended;   /* a process of this boot of this machine that has ended */
	uint64_t now; /* ns, CLOCK_MONOTONIC of its machine: now, or the last record's time */
	int64_t wall; /* ns: time + wall = time since 1970 */
	struct pending_qp *qp;
	struct pending_request *request; /* in order of posting */
	size_t qps, requests;
	uint32_t lost; /* entries that the tables had no room for */
};

/* Loads the tables of a file. NULL, or a message for the user. In both cases pass *w to waits_free(). */
const char *waits_load(const char *name, struct waits *w);
void waits_free(struct waits *w);
/* Prints what the program waits for, in sentences, to stdout. `all`: all files, for the state of the other ends. */
void waits_explain(const struct waits *w, const struct waits *all, size_t count);

#endif
