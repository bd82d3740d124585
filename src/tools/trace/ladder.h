/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_TRACE_LADDER_H
#define UROCE_TOOLS_TRACE_LADDER_H

#include <stdio.h>

#include "tools/trace/join.h"

/* Prints a request as a ladder diagram of text, 80 columns wide. */
void print_ladder(const struct joined *j, const struct request *q, FILE *to);
/* Prints the requests as a self-contained page of HTML. */
void print_html(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);

#endif
