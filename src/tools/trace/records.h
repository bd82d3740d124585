/* SPDX-License-Identifier: BSD-2-Clause */
/* The records of one or more trace files on one clock, in order of time. Freed with records_free(). */
#ifndef UROCE_TOOLS_TRACE_RECORDS_H
#define UROCE_TOOLS_TRACE_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/trace.h"
#include "base/trace_file.h"

/* Source of a file's clock. */
enum clock_source {
	CLOCK_REFERENCE, /* the other files follow this one */
	CLOCK_SHARED,	 /* same machine and boot: same clock */
	CLOCK_ESTIMATED, /* fastest packets in both directions; accurate to half their difference */
	CLOCK_ONE_WAY,	 /* packets in one direction only: the fastest is taken to need no time */
	CLOCK_WALL,	 /* no common packet: time of day */
};

struct source {
	const char *name;
	char host[64], boot[40], program[64];
	uint32_t pid;
	uint64_t start_mono, start_wall; /* ns */
	uint64_t records;		 /* records found */
	uint64_t overwritten;		 /* older records replaced by newer ones */
	uint64_t lost;			 /* records of threads that had no ring */
	enum clock_source clock;
	int64_t offset;	  /* ns: the file's time + offset = common time */
	uint64_t fastest; /* ns: fastest packet from and to the file compared with */
};

struct record {
	uint64_t time; /* ns on the common clock */
	uint16_t file; /* index into sources */
	uint16_t point;
	uint32_t tid;
	uint64_t arg[TRACE_ARGS];
	uint32_t repeats; /* number of repetitions soon after */
};

struct records {
	struct source *sources;
	struct record *all;
	uint32_t files, count;
};

/* Names of a point and its arguments; "_": not used. */
extern const struct trace_point_name point_name[TRACE_POINTS];

/* Loads the files. NULL, or a message for the user, valid until the next call. */
const char *records_load(struct records *r, char **names, uint32_t count);
void records_free(struct records *r);

/* Copies a part of a file that may be cut at any time; missing bytes are 0. */
void trace_file_read(int fd, void *to, size_t bytes, uint64_t at);

#endif
