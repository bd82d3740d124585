/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_TRACE_WAITS_EXPLAIN_H
#define UROCE_TOOLS_TRACE_WAITS_EXPLAIN_H

#include <stddef.h>

struct waits;

/* Prints what the program waits for, in sentences, to stdout. `all`: all files, for the state of the other ends. */
void waits_explain(const struct waits *w, const struct waits *all, size_t count);

#endif
