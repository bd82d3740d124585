/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace file, which trace points write and `uroce trace` reads: a header, then rings of records. Each thread that
 * records has a ring; when the thread has ended, the next new thread uses its ring. Processes map the file, so all
 * records survive a SIGKILL. Numbers are in host byte order. The file names its trace points and their arguments, so
 * that a reader of another version can read it.
 *
 * A record that is equal to one of the last few of its thread, of a packet that is sent again or of what became of it,
 * is not written after some rounds: the one that is there counts it, in the upper half of its `point`.
 *
 * Behind the names there may be a struct trace_pending. It leads to two tables, of queue pairs and of their requests
 * that are not complete, which no record replaces: so a file tells what a program waited for, however long. A slot that
 * is in use has a key, others have 0. A slot is looked for in PENDING_BUCKET adjacent ones only. */
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
	char arg[TRACE_ARGS][TRACE_NAME]; /* names of arguments; "_": not used */
};

struct trace_header {
	uint64_t magic;
	uint32_t header_bytes; /* offset of the first ring */
	uint32_t ring_bytes;   /* size of a ring with its header; rings are contiguous */
	uint32_t ring_header_bytes;
	uint32_t ring_records; /* records of a ring: a power of two */
	uint32_t record_bytes;
	uint32_t point_bytes; /* bytes of one struct trace_point_name */
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
	uint64_t time; /* ns: CLOCK_MONOTONIC */
	uint32_t point;
	uint32_t tid;
	uint64_t arg[TRACE_ARGS];
};
#define TRACE_POINT(entry_point)   ((entry_point)&0xffff)
#define TRACE_REPEATS(entry_point) ((entry_point) >> 16)

#define PENDING_MAGIC	0x3230444e45504355ull /* "UCPEND02", read as a little-endian number */
#define PENDING_BUCKET	8
#define PENDING_REASONS 7 /* the engine's enum retry_reason */

struct trace_pending {
	uint64_t magic;
	uint32_t qps, requests;	      /* slots: powers of two */
	uint32_t qps_at, requests_at; /* offsets in the file: the keys, then the slots */
	uint32_t qp_bytes, request_bytes;
	_Atomic uint32_t lost_qps, lost_requests; /* number of QPs and requests that found no slot */
};

/* The past of a queue pair. Key: its number, and 1 << 32. Times: ns, CLOCK_MONOTONIC; 0: never. */
struct pending_qp {
	uint32_t qpn, dest_qpn, state;
	uint32_t lost;				       /* messages of UC and UD that found no receive */
	uint64_t first_at;			       /* time when it was first seen */
	uint64_t heard_at;			       /* time of the last packet received */
	uint64_t answer_at;			       /* time of the last ACK, NAK or response */
	uint32_t answer_psn, answer_syndrome, answers; /* its PSN and syndrome; number of consecutive equal ones */
	uint32_t dropped;			       /* consecutive requests of the peer that were refused */
	uint32_t drop_reason, drop_psn;
	uint64_t drop_at;
	uint64_t posted, used;		    /* number of receives posted, used */
	uint64_t posted_at, used_at;	    /* times of the last of each */
	uint32_t failed_wqe, failed_status; /* the request that failed first, and was not flushed; status 0: none */
	uint64_t failed_at;
};

/* A request that is not complete. Key: the number of its queue pair, and its place in the queue + 1 in the low half. */
struct pending_request {
	uint32_t qpn, wqe;
	uint64_t wr_id;
	uint32_t opcode, length;
	uint64_t posted_at, picked_at, built_at; /* times of the post, the first packet, the last */
	uint32_t psn, packets;
	uint32_t built; /* number of packets, resent ones included */
	uint32_t retries_left;
	uint32_t retries[PENDING_REASONS];
	uint32_t last_reason;
	uint64_t retried_at;
};

static_assert(sizeof(struct trace_entry) == 64, "a record is one cache line");

#endif
