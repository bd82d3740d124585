/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_TRACE_LIFE_JSON_H
#define UROCE_TOOLS_TRACE_LIFE_JSON_H

#include <stdio.h>

#include "tools/trace/join.h"

/* Prints the requests, their summary, or both as JSON. */
void print_json(const struct joined *j, const uint32_t *which, uint32_t count, bool requests, bool summary, FILE *to);

#endif
