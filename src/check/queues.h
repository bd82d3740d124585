/* SPDX-License-Identifier: BSD-2-Clause */
/* The outstanding requests of a queue pair or an SRQ, and what a CQ expects. Guarded by objects_lock. */
#ifndef UROCE_CHECK_QUEUES_H
#define UROCE_CHECK_QUEUES_H

#include <pthread.h>

#include "base/list.h"
#include "check/objects.h"

struct qp;

/* The range from the lowest to the highest byte of several accesses. */
struct bounds {
	uint64_t start, end;
};

/* The requests of a queue pair or an SRQ. */
struct queues {
	struct list sends, receives; /* requests, oldest first */
	uint32_t send_count;	     /* length of `sends` */
	uint32_t signalled;	     /* signalled sends */
	uint32_t bringing;	     /* READs and atomics among the sends */
	uint32_t depth;		     /* capacity of the send queue */
	uint32_t answers;	     /* messages of the peer that were polled */
	bool signals_all;
	struct object *send_cq, *receive_cq; /* NULL: none, or not checked */
	struct object *next;		     /* next queue pair whose number has the same hash */
	const struct qp *qp;		     /* NULL: an SRQ's queues */

	struct list brings;		 /* outstanding.c: link of queues with READs or atomics */
	struct list racing;		 /* races.c: link of queues with outstanding accesses */
	struct bounds bounds;		 /* races.c: range of these accesses */
	uint64_t bounds_heard;		 /* races.c: clock from which accesses are counted in `bounds` */
	uint64_t heard;			 /* races.c: messages of the peer that mention this queue pair */
	uint64_t write_at, write_length; /* memory of the peer's WRITE that is arriving; length in bytes */

	const struct stack *failure; /* poll of the first completion with an error since the program changed the state;
					NULL: none */
	enum ibv_wc_status failed_status; /* status of that completion */
	pthread_t failed_by;		  /* thread that polled it */
	uint64_t failed_poll;		  /* number of that poll, counted per thread */
};

/* Completions that a CQ expects, and how the program waits for them. */
struct watch {
	uint64_t expected;	      /* completions of posted requests that have not been polled */
	uint32_t armings;	      /* armings before which completions might come: see ARM_WAITS */
	bool polled;		      /* the CQ has been polled */
	bool armed;		      /* armed, and its event has not been fetched */
	bool is_late;		      /* had completions when it was armed, and was not polled since */
	const struct stack *armed_at; /* stack of the last ibv_req_notify_cq() */
	pthread_t by;		      /* last thread to create, arm or poll the CQ, or to fetch its event */
	_Atomic uint32_t pollers;     /* threads that poll it now */
	pthread_t polled_by;	      /* last thread to poll it, if `polled` */
};

/* Gives an object its queues or its watch, if objects of its kind have them; frees them, without the
 * requests; but a watch only if no thread polls. */
void queues_open(struct object *o) REQUIRES(objects_lock);
void queues_close(struct object *o) REQUIRES(objects_lock);

/* An object that has queues, or NULL. */
struct object *queues_find(enum check_kind kind, const void *object) REQUIRES(objects_lock);
/* The queue pair of that number, or NULL. */
struct object *queues_object(uint32_t qpn) REQUIRES(objects_lock);
struct queues *queues_of_number(uint32_t qpn) REQUIRES(objects_lock);

#endif
