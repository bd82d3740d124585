/* SPDX-License-Identifier: BSD-2-Clause */
/* A request of a queue pair or an SRQ, from post to poll. Guarded by objects_lock once outstanding. */
#ifndef UROCE_CHECK_REQUEST_H
#define UROCE_CHECK_REQUEST_H

#include <infiniband/verbs.h>

#include "base/list.h"

enum { REQUEST_SGES = 4, REQUEST_BLOCKS = 32 };

/* Bytes that a request accesses, in memory of this process or of the peer. */
struct request_target {
	uint64_t place; /* process that has the memory; 0: this one */
	uint64_t at, length;
	uint32_t rkey; /* rkey of the peer's region; 0 in this process */
	bool writes;
	bool is_atomic;
};

#define SGES_MOST 256 /* SGEs of a request: more than a queue takes */

/* SGEs to look at: 0 if there is no list, or if the list is longer than the queue takes, as the post will be
 * refused. */
static inline int sges_of(const struct ibv_sge *list, int count, uint32_t most)
{
	return list && count > 0 && (uint32_t)count <= min_of(most, (uint32_t)SGES_MOST) ? count : 0;
}

struct request {
	struct list link; /* place in its queue */
	uint64_t wr_id;
	const struct stack *posted;   /* stack of the post */
	struct object *cq;	      /* CQ that expects its completion; NULL: none */
	uint64_t digest;	      /* digest of the bytes that are sent, or will be overwritten */
	uint64_t since;		      /* placed_count() just before the digest was taken */
	uint32_t qpn;		      /* number of the queue pair (of a send) */
	struct request_target target; /* remote memory of a WRITE or a READ; length 0: none */
	uint64_t heard;		      /* races.c: clock of the program's knowledge at the post */
	uint64_t ticket;	      /* across.c: ticket of the last access */
	uint32_t answers;	      /* messages of the peer polled before the post; from the poll on: since */
	uint8_t accesses;	      /* across.c: number of accesses in the shared table */
	uint8_t opcode;		      /* enum ibv_wr_opcode (of a send) */
	bool is_send;		      /* false: a receive */
	bool brings;		      /* bytes come to its SGEs: a receive, a READ or an atomic */
	bool has_digest;
	bool is_followed;      /* of a receive: its bytes are digested when they are in memory */
	bool ends_only;	       /* digest covers the first and the last bytes only */
	bool is_ours;	       /* asan.h: the addresses are the program's, so the sanitizer knows the memory */
	bool is_taken;	       /* asan.h: the sanitizer has been told that the memory is not the program's */
	int mark;	       /* asan.h: client block of valgrind, plus 1; 0: none */
	bool begun;	       /* of a request that brings bytes: some of them may be in memory */
	bool is_placed;	       /* of a request that brings bytes: all of them are in memory */
	bool was_written;      /* of a request that brings bytes: the program wrote to the memory before they came */
	uint8_t blocks;	       /* of a receive: used elements of block[] */
	uint8_t changed_block; /* of a receive: first block that differed when the message came; REQUEST_BLOCKS: none */
	uint32_t block[REQUEST_BLOCKS]; /* of a receive: digests of the blocks of its first SGE */
	uint32_t length;		/* of a receive: bytes of the message, once they are in memory */
	const struct stack *touched;	/* watch.c: an access of the program; NULL: none is known */
	uint16_t slot[REQUEST_SGES];	/* pages.c: number of the slot of each SGE, plus 1; 0: none */
	const void *ah;			/* address handle of a datagram */
	const void *poster;		/* outstanding.c: the thread that is posting; NULL: posted */
	uint8_t sges;			/* used elements of sge[] */
	struct ibv_sge sge[REQUEST_SGES];
	uint32_t all_sges;   /* msan.c: elements of all[] */
	struct ibv_sge *all; /* msan.c: every SGE; in the memory behind this struct */
};

/* True of a READ or an atomic, whose SGEs are written to. */
bool brings_bytes(unsigned opcode);
/* True if the SGEs are read. */
bool sends_bytes(unsigned opcode);
/* A request with these SGEs, for free(). NULL without memory. */
struct request *request_make(const struct stack *posted, uint64_t wr_id, const struct ibv_sge *sge, int sges);
/* True if the request and the SGEs have bytes in common. */
bool request_overlaps(const struct request *r, const struct ibv_sge *sge, int sges);
/* True if SGEs of both requests have bytes in common. */
bool requests_overlap(const struct request *a, const struct request *b);

#endif
