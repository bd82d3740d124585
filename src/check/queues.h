/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: the requests of a QP or an SRQ from post to poll, and what a CQ expects. Guarded by objects_lock. */
#ifndef UROCE_CHECK_QUEUES_H
#define UROCE_CHECK_QUEUES_H

#include "base/list.h"
#include "check/objects.h"

enum { REQUEST_SGES = 4 };

struct request {
	struct list link;
	uint64_t wr_id;
	const struct stack *posted;
	struct object *cq; /* where its completion is counted as expected; NULL: it has none */
	uint64_t digest;   /* of the bytes that it sends */
	uint8_t opcode;	   /* enum ibv_wr_opcode, of a send */
	bool is_send, has_digest;
	uint8_t sges; /* of the first REQUEST_SGES */
	struct ibv_sge sge[REQUEST_SGES];
};

/* Of a QP or an SRQ. */
struct queues {
	struct list sends, receives; /* oldest first */
	uint32_t send_count, receive_count;
	uint32_t signalled, bringing; /* of the sends; READs and atomics among them */
	uint32_t depth;		      /* sends that fit */
	bool signals_all;
	struct object *send_cq, *receive_cq; /* NULL: not checked, or none */
	struct object *next;		     /* of the same hash of QPN */
};

/* Of a CQ. */
struct watch {
	uint64_t expected;			/* completions of requests that were posted, and were not polled */
	bool polled, armed, polled_since_armed; /* ever */
	const struct stack *armed_at;
};

/* An object is in the table, or about to leave it. */
void queues_open(struct object *o) REQUIRES(objects_lock);
void queues_close(struct object *o) REQUIRES(objects_lock);

#endif
