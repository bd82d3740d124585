/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_TRACE_LADDER_H
#define UROCE_TOOLS_TRACE_LADDER_H

#include <stdio.h>

#include "tools/trace/join.h"

/* A request as a ladder diagram of text, 80 columns wide. */
void print_ladder(const struct joined *j, const struct request *q, FILE *to);
/* The requests as a page of HTML, with nothing that it needs from elsewhere. */
void print_html(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);

#endif
