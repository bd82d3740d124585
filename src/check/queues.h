/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: the requests of a QP or an SRQ from post to poll, and what a CQ expects. Guarded by objects_lock. */
#ifndef UROCE_CHECK_QUEUES_H
#define UROCE_CHECK_QUEUES_H

#include <pthread.h>

#include "base/list.h"
#include "check/objects.h"

struct qp;

enum { REQUEST_SGES = 4, REQUEST_BLOCKS = 32 };

/* Bytes that a request accesses: in memory of this process, or of the peer. */
struct request_target {
	uint64_t place; /* 0: this process */
	uint64_t at, length;
	uint32_t rkey; /* of the peer's region; 0 in this process */
	bool writes;
};

/* From the lowest to the highest byte of several accesses. */
struct bounds {
	uint64_t start, end;
};

#define SGES_MOST 256 /* of a request: more than a queue takes */

/* The SGEs of a request that can be looked at: of a list that is none, or longer than the queue takes, which will be
 * refused, 0. */
static inline int sges_of(const struct ibv_sge *list, int count, uint32_t most)
{
	return list && count > 0 && (uint32_t)count <= min_of(most, (uint32_t)SGES_MOST) ? count : 0;
}

struct request {
	struct list link;
	uint64_t wr_id;
	const struct stack *posted;
	struct object *cq; /* where its completion is counted as expected; NULL: it has none */
	uint64_t digest;   /* of the bytes that it sends, or of those that will be overwritten */
	uint64_t since;	   /* placed_count() before the digest was taken */
	uint32_t qpn;
	struct request_target target; /* of a WRITE or a READ; length 0: none */
	uint64_t heard;		      /* races.c: what the program had heard when it was posted */
	uint64_t ticket;	      /* across.c: of its last access */
	uint8_t accesses;	      /* across.c: how many */
	uint8_t opcode;		      /* enum ibv_wr_opcode, of a send */
	bool is_send, brings, has_digest;
	bool ends_only; /* the digest is of the first and the last bytes */
	/* of a program with AddressSanitizer: that knows its memory; is told that this is not the program's: asan.h */
	bool is_ours, is_taken;
	int mark; /* of a client block of valgrind, plus 1; 0: none */
	/* of what brings bytes: they may be there in part; they are there; the memory had been written to before */
	bool begun, is_placed, was_written;
	uint16_t slot[REQUEST_SGES]; /* pages.c */
	uint32_t length;	     /* of a receive, when the bytes are there: how many */
	/* of a receive, of its first SGE: digests, and which of them differed first just before a message came */
	uint32_t block[REQUEST_BLOCKS];
	uint8_t blocks, changed_block; /* how many; REQUEST_BLOCKS: none */
	uint8_t sges;		       /* of the first REQUEST_SGES */
	const void *poster;	       /* the thread that is posting it; NULL: none any more */
	struct ibv_sge sge[REQUEST_SGES];
	uint32_t all_sges;   /* msan.c: each of what brings bytes */
	struct ibv_sge *all; /* behind it, in the same memory */
};

/* Of a QP or an SRQ. */
struct queues {
	struct list sends, receives; /* oldest first */
	uint32_t send_count;
	uint32_t signalled, bringing; /* of the sends; READs and atomics among them */
	uint32_t depth;		      /* sends that fit */
	bool signals_all;
	struct object *send_cq, *receive_cq; /* NULL: not checked, or none */
	struct object *next;		     /* of the same hash of QPN */
	const struct qp *qp;		     /* NULL: of an SRQ */
	/* races.c: of what is outstanding since that much was heard */
	struct list racing;
	struct bounds bounds;
	uint64_t bounds_heard, heard;	 /* heard: how often the peer's messages told of this QP */
	uint64_t write_at, write_length; /* the WRITE of the peer that arrives */
	/* of a QP: the first completion with an error, until the program itself changes the state */
	const struct stack *failure;	  /* where it was polled; NULL: none */
	enum ibv_wc_status failed_status; /* of it */
	pthread_t failed_by;		  /* that has polled it */
	uint64_t failed_poll;		  /* number of that poll of that thread */
};

/* Of a CQ. */
struct watch {
	uint64_t expected;			/* completions of requests that were posted, and were not polled */
	bool polled, armed, polled_since_armed; /* ever */
	const struct stack *armed_at;
	pthread_t by; /* that has created, armed, polled it, or fetched its event last */
};

/* An object is in the table, or about to leave it. */
void queues_open(struct object *o) REQUIRES(objects_lock);
void queues_close(struct object *o) REQUIRES(objects_lock);

/* Of the QP of that number; NULL: there is none. */
struct queues *queues_of_number(uint32_t qpn) REQUIRES(objects_lock);
/* SGEs of the one and the other have bytes in common. */
bool requests_overlap(const struct request *a, const struct request *b);
/* A READ or an atomic: its SGEs are written to. */
bool brings_bytes(unsigned opcode);
/* Its SGEs are read. */
bool sends_bytes(unsigned opcode);

#endif
