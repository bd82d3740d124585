/* SPDX-License-Identifier: BSD-2-Clause */
/* Output of joined requests as text and JSON. */
#ifndef UROCE_TOOLS_TRACE_LIFE_H
#define UROCE_TOOLS_TRACE_LIFE_H

#include <stdio.h>

#include "tools/trace/join.h"

/* Selection of requests. -1: any. */
struct filter {
	int64_t qpn, wqe;
	const char *operation; /* NULL: any */
	uint32_t limit;	       /* the last `limit` requests; 0: all */
};

/* Indexes of the selected requests, in an array that the caller frees. Returns their number. */
uint32_t filter_requests(const struct joined *j, const struct filter *f, uint32_t **which);

/* Letter by which the lines name an end. */
char end_letter(uint32_t end);
/* Letters of a file's ends: "A", or "A and B". Valid until the next call. */
const char *file_letters(const struct joined *j, uint32_t file);
/* Letters of a connection: "A -> B", or "A" if the peer is in no file. Valid until the next call. */
const char *conn_letters(const struct joined *j, const struct conn *conn);
void print_sources(const struct joined *j, FILE *to);
void print_title(const struct joined *j, const struct request *q, FILE *to);
void print_request(const struct joined *j, const struct request *q, FILE *to);

/* A step in words, as in print_request(); `what` is "" for a step of no request. */
struct told {
	const char *what;
	char text[256];
};
void life_tell(const struct joined *j, const struct request *q, const struct record *e, struct told *told);
/* True if a step is about a packet between the first and the last of many, which are not shown. */
bool life_is_between(const struct request *q, const struct record *e);

#endif
