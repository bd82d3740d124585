/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_TRACE_PERFETTO_H
#define UROCE_TOOLS_TRACE_PERFETTO_H

#include <stdio.h>

#include "tools/trace/join.h"

/* Prints the requests as JSON for Perfetto and chrome://tracing. */
void print_perfetto(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);

#endif
