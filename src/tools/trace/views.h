/* SPDX-License-Identifier: BSD-2-Clause */
/* Forms in which joined traces are printed. `which`: indices of the requests, `count` of them. */
#ifndef UROCE_TOOLS_TRACE_VIEWS_H
#define UROCE_TOOLS_TRACE_VIEWS_H

#include <stdio.h>

#include "tools/trace/join.h"

/* Prints the states that the first few queue pairs went through; `qpn`: only this one, -1: any. */
void print_walks(const struct joined *j, int64_t qpn, FILE *to);
/* Prints a request as a ladder diagram of text, 80 columns wide. */
void print_ladder(const struct joined *j, const struct request *q, FILE *to);
/* Prints the requests as a self-contained page of HTML. */
void print_html(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);
/* Prints the requests, their summary, or both as JSON. */
void print_json(const struct joined *j, const uint32_t *which, uint32_t count, bool requests, bool summary, FILE *to);
/* Prints the requests as JSON for Perfetto and chrome://tracing. */
void print_perfetto(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);

#endif
