/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints what join() found: as text, and as JSON. */
#ifndef UROCE_LIFE_H
#define UROCE_LIFE_H

#include <stdio.h>

#include "tools/join.h"

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

/* ladder.c: a request as a ladder diagram of text, 80 columns wide; */
void print_ladder(const struct joined *j, const struct request *q, FILE *to);
/* the requests as a page of HTML, with nothing that it needs from elsewhere. */
void print_html(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);
/* perfetto.c: as JSON that Perfetto and chrome://tracing open. */
void print_perfetto(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);

/* Times per operation: each step's median and 99th percentile over these requests. */
void print_summary(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to);

void print_json(const struct joined *j, const uint32_t *which, uint32_t count, bool requests, bool summary, FILE *to);

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
	int64_t median, p99, least, most; /* ns */
};

/* The times of requests of one operation between two milestones. */
struct spread measure(const struct joined *j, const uint32_t *which, uint32_t count, uint32_t opcode,
		      const struct span *span);

#endif
