/* SPDX-License-Identifier: BSD-2-Clause */
/* The records of one or more trace files on one clock, in order of time. Freed with records_free(). */
#ifndef UROCE_TOOLS_TRACE_RECORDS_H
#define UROCE_TOOLS_TRACE_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/trace.h"
#include "base/trace_file.h"

/* How a file's clock was set. */
enum clock_source {
	CLOCK_REFERENCE, /* the others follow it */
	CLOCK_SHARED,	 /* the same machine and boot: one clock */
	CLOCK_ESTIMATED, /* from the fastest packets in both directions: good to half their difference */
	CLOCK_ONE_WAY,	 /* packets in one direction only: the fastest is taken to have needed no time */
	CLOCK_WALL,	 /* no common packet: by the time of day */
};

struct source {
	const char *name;
	char host[64], boot[40], program[64];
	uint32_t pid;
	uint64_t start_mono, start_wall; /* ns */
	uint64_t records;		 /* found */
	uint64_t overwritten;		 /* older ones that newer ones have replaced */
	uint64_t lost;			 /* of threads that had no ring */
	enum clock_source clock;
	int64_t offset;	  /* ns: this + the file's time is the common time */
	uint64_t fastest; /* ns: one way, from and to the file that it was compared with */
};

struct record {
	uint64_t time; /* ns on the common clock */
	uint16_t file; /* index into sources */
	uint16_t point;
	uint32_t tid;
	uint64_t arg[TRACE_ARGS];
	uint32_t repeats; /* how often it happened again, soon after */
};

struct records {
	struct source *sources;
	struct record *all;
	uint32_t files, count;
};

/* What a point and its arguments are called; "_" are not used. */
extern const struct trace_point_name point_name[TRACE_POINTS];

/* 0, or a message for the user (of this call; not freed). */
const char *records_load(struct records *r, char **names, uint32_t count);
void records_free(struct records *r);

/* Copies a part of a file that may be cut at any time; what is not there is 0. */
void trace_file_read(int fd, void *to, size_t bytes, uint64_t at);

#endif
