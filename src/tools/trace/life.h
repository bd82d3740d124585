/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints what join() found: as text, and as JSON. */
#ifndef UROCE_TOOLS_TRACE_LIFE_H
#define UROCE_TOOLS_TRACE_LIFE_H

#include <stdio.h>

#include "tools/trace/join.h"

/* Which requests to show. -1: any. */
struct filter {
	int64_t qpn, wqe;
	const char *operation; /* NULL: any */
	uint32_t limit;	       /* the last so many; 0: all */
};

/* The indexes of the requests to show, in an array that the caller frees. */
uint32_t filter_requests(const struct joined *j, const struct filter *f, uint32_t **which);

void print_sources(const struct records *r, FILE *to);
void print_title(const struct joined *j, const struct request *q, FILE *to);
void print_request(const struct joined *j, const struct request *q, FILE *to);

/* A step in words, as print_request() has it; `what` is "" if it is of no request. */
struct told {
	const char *what;
	char text[256];
};
void life_tell(const struct joined *j, const struct request *q, const struct record *e, struct told *told);
/* Of many packets, the first and the last are shown: it is about one between them. */
bool life_is_between(const struct request *q, const struct record *e);

#endif
