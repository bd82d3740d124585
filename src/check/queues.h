/* SPDX-License-Identifier: BSD-2-Clause */
/* The outstanding requests of a queue pair or an SRQ, and what a CQ expects. Guarded by objects_lock. */
#ifndef UROCE_CHECK_QUEUES_H
#define UROCE_CHECK_QUEUES_H

#include <pthread.h>

#include "base/list.h"
#include "check/objects.h"

struct qp;

/* From the lowest to the highest byte of several accesses. */
struct bounds {
	uint64_t start, end;
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

/* The object gets its queues or its watch, if it is of a kind that has them; and loses them, without requests. */
void queues_open(struct object *o) REQUIRES(objects_lock);
void queues_close(struct object *o) REQUIRES(objects_lock);

/* The object, if it has queues; else NULL. */
struct object *queues_find(enum check_kind kind, const void *object) REQUIRES(objects_lock);
/* The queue pair of that number; NULL: there is none. */
struct object *queues_object(uint32_t qpn) REQUIRES(objects_lock);
struct queues *queues_of_number(uint32_t qpn) REQUIRES(objects_lock);

#endif
