/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of each work request, from the records of both ends. Freed with join_free(); the records must live as
 * long. */
#ifndef UROCE_TOOLS_TRACE_JOIN_H
#define UROCE_TOOLS_TRACE_JOIN_H

#include "base/psn.h"
#include "tools/map.h"
#include "tools/trace/records.h"

/* Milestones of every request. For a message of several packets, PICKED_UP is the first one's and the others are the
 * last one's; for retransmitted packets, the first time counts. A READ is answered by its response packets. */
enum milestone {
	POSTED,
	PICKED_UP,
	BUILT,
	SENT,
	ARRIVED,
	EXECUTED,
	ANSWERED,
	ANSWER_SENT,
	ANSWER_ARRIVED,
	COMPLETED,
	POLLED,
	RECEIVE_COMPLETED,
	RECEIVE_POLLED,
	MILESTONES,
};

#define NO_STEP UINT32_MAX
#define NO_CONN UINT32_MAX /* no value of a map */

struct step {
	uint32_t record;
	uint32_t next; /* NO_STEP: last */
};

struct request {
	uint32_t conn;
	uint32_t wqe;
	uint64_t wr_id;
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t length, packets;
	psn_t psn;		   /* first PSN; valid if packets is not 0 */
	bool signaled;		   /* has a CQE on success */
	int status;		   /* enum ibv_wc_status; -1: not complete */
	uint64_t when[MILESTONES]; /* NEVER: not seen */
	uint64_t receive_posted;   /* NEVER: no receive, or not seen */
	uint32_t retries;
	uint32_t first, last; /* steps */
};

/* A queue pair in one file. */
struct conn {
	uint16_t file;
	uint16_t end; /* names it: end_letter() */
	uint32_t qpn, dest_qpn, mtu;
	uint32_t sq_psn, rq_psn;
	uint32_t namesake; /* earlier queue pair of this number in another file; NO_CONN: none */
	uint32_t peer;	   /* queue pair of the other end; NO_CONN: in none of the files */
	uint32_t *sent;	   /* requests picked up, in order of PSN */
	uint32_t sents;
	uint32_t near, peer_near;      /* position in `sent` of the last search, for our records and the peer's */
	uint32_t covered[4];	       /* position in `sent` up to which an ACK was built, sent, received, used */
	uint32_t *done, dones, polled; /* requests in order of their CQEs, and number of polled ones */
	uint32_t *received, receiveds,
		rpolled;       /* the peer's requests that completed receives here, and number of polled ones */
	uint64_t *received_id; /* wr_id of those receives */
	uint32_t epoch;	       /* moves from RESET so far, each of which restarts WQE numbers */
};

struct joined {
	const struct records *records;
	struct conn *conns;
	struct request *requests; /* in order of posting */
	struct step *steps;
	uint32_t conn_count, request_count, step_count;
	uint16_t *second; /* per file: end of the later one of two queue pairs that are connected to each other; 0: none
			   */
	uint32_t partial; /* records of requests that were posted before the files begin */
	struct map by_number; /* queue pairs: last one of that number; others follow as namesakes */
	struct map by_qpn, by_wqe, receive_posts, receive_users, packets;
};

void join(struct joined *j, const struct records *records);
void join_free(struct joined *j);

/* End at which a record of the request was made. */
uint16_t join_end(const struct joined *j, const struct request *q, const struct record *e);

/* True if the response is data. */
bool request_reads(const struct request *q);

#endif
