/* SPDX-License-Identifier: BSD-2-Clause */
/* A request of a queue pair or an SRQ, from post to poll. Guarded by objects_lock, once it is outstanding. */
#ifndef UROCE_CHECK_REQUEST_H
#define UROCE_CHECK_REQUEST_H

#include <infiniband/verbs.h>

#include "base/list.h"

enum { REQUEST_SGES = 4, REQUEST_BLOCKS = 32 };

/* Bytes that a request accesses: in memory of this process, or of the peer. */
struct request_target {
	uint64_t place; /* 0: this process */
	uint64_t at, length;
	uint32_t rkey; /* of the peer's region; 0 in this process */
	bool writes;
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

/* A READ or an atomic: its SGEs are written to. */
bool brings_bytes(unsigned opcode);
/* Its SGEs are read. */
bool sends_bytes(unsigned opcode);
/* A request with these SGEs, which free() frees; NULL: no memory. */
struct request *request_make(const struct stack *posted, uint64_t wr_id, const struct ibv_sge *sge, int sges);
/* SGEs of the one and the other have bytes in common. */
bool requests_overlap(const struct request *a, const struct request *b);

#endif
