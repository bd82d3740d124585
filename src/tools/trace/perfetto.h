/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_TRACE_PERFETTO_H
#define UROCE_TOOLS_TRACE_PERFETTO_H

#include <stdio.h>

#include "tools/trace/join.h"

/* The requests as JSON that Perfetto and chrome://tracing open. */
void print_perfetto(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);

#endif
