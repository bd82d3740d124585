/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace file, which trace points write and `uroce trace` reads: a header, then rings of records. Each thread that
 * records has a ring; when the thread has ended, the next new thread uses its ring. Processes map the file, so all
 * records survive a SIGKILL. Numbers are in host byte order. The file names its trace points and their arguments, so
 * that a reader of another version can read it. */
#ifndef UROCE_TRACE_FILE_H
#define UROCE_TRACE_FILE_H

#include <assert.h>
#include <stdint.h>

#define TRACE_MAGIC 0x3130454341525455ull /* "UTRACE01", read as a little-endian number */
#define TRACE_ARGS  6
#define TRACE_NAME  16	 /* bytes of a name with its terminating zero */
#define TRACE_PAGE  4096 /* headers are rounded up to this */

struct trace_point_name {
	char name[TRACE_NAME];
	char arg[TRACE_ARGS][TRACE_NAME]; /* "_": not used */
};

struct trace_header {
	uint64_t magic;
	uint32_t header_bytes; /* offset of the first ring */
	uint32_t ring_bytes;   /* size of a ring with its header; rings are contiguous */
	uint32_t ring_header_bytes;
	uint32_t ring_records; /* a power of two */
	uint32_t record_bytes;
	uint32_t point_bytes; /* of one struct trace_point_name */
	uint32_t points;      /* number of struct trace_point_name after this header */
	uint32_t pid;
	uint64_t start_mono; /* ns, CLOCK_MONOTONIC: the clock of the records */
	uint64_t start_wall; /* ns since 1970, at the same moment */
	char host[64];
	char boot[40]; /* boot id: files with the same boot id have the same clock */
	char program[64];
	_Atomic uint32_t rings; /* number of rings */
	_Atomic uint32_t lost;	/* records of threads that got no ring */
};

struct trace_ring {
	uint32_t tid; /* the thread that uses the ring, or used it last */
	uint32_t spare;
	_Atomic uint64_t written; /* records written so far: record n is at n modulo ring_records */
};

struct trace_entry {
	uint64_t time; /* ns */
	uint32_t point;
	uint32_t tid;
	uint64_t arg[TRACE_ARGS];
};
static_assert(sizeof(struct trace_entry) == 64, "a record is one cache line");

#endif
