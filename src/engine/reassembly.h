/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective retransmission of responses, between two uroce: the requester keeps those that come before their turn, and
 * asks again only for those that are missing (reassembly.c), with a request of its own (OPCODE_ANSWER_AGAIN). IBTA
 * orders READs after each other, so memory must not be read again for one when later ones have been answered. So the
 * responder answers from a copy of what it has sent (kept.c, OPCODE_ANSWERED_AGAIN). It makes copies once a READ has
 * been asked for again: the first loss costs all that comes after it, as with other peers. With qp->lock. */
#ifndef UROCE_REASSEMBLY_H
#define UROCE_REASSEMBLY_H

#include "engine/scoreboard.h"

struct reassembly {
	struct scoreboard board; /* `has`: the response is kept, or there will be none */
	psn_t from;		 /* nothing is kept before it ... */
	bool gone_back;		 /* ... as it may be answered twice: the requester went back ... */
	uint64_t until;		 /* ... and so long ago that the first answer does not come any more */
	psn_t told;		 /* the peer has taken all before it */
	bool urgent;		 /* ask for one whatever the window */
	bool works;		 /* the peer has answered again */
	uint8_t ignored;	 /* so often it has not */
};

/* ---- the requester ---- */

/* A response is missing, and the requester goes back: keep responses from now on, if the peer can answer again. */
void reassembly_begin(struct qp *qp);
void reassembly_clear(struct qp *qp);
void reassembly_stop(struct qp *qp);
void reassembly_settle(struct requester *r); /* forgets what is acknowledged */

/* A response has come before its turn. False: the requester must go back. */
bool reassembly_keep(struct qp *qp, const struct packet *p, uint64_t now);
/* The peer has taken all before `end`, but responses are missing. The same. */
bool reassembly_told(struct qp *qp, psn_t end, uint64_t now);
/* A response that is kept, and whose turn it is: the caller's. NULL: there is none. */
struct packet *reassembly_next(struct qp *qp, uint64_t now);
/* OPCODE_ANSWERED_AGAIN. False: it is of no use. Otherwise *response is what it stands for. */
bool reassembly_answered(struct qp *qp, const struct packet *p, struct packet *response, uint64_t now);
/* Nothing has been heard for long. What is missing before what is kept is lost; if nothing is, the last response that
 * is awaited, or a NAK, will tell. False: the requester must go back. */
bool reassembly_probe(struct qp *qp, uint64_t now);
static inline bool reassembly_can_probe(const struct requester *r)
{
	return r->reads && r->reads->works;
}
/* The requester goes back, as it was not answered. */
void reassembly_ignored(struct requester *r);
bool reassembly_ask(struct qp *qp, struct tx_batch *batch);

/* ---- the responder ---- */

/* From now on, what READs are answered is kept. */
void kept_begin(struct qp *qp);
/* The response begins: a copy of all of it is made, if that is possible. */
void kept_take(struct qp *qp, const struct response *s);
/* The bytes at this PSN. NULL: they are not kept. */
const char *kept_at(const struct qp *qp, psn_t psn, uint32_t length);
/* OPCODE_ANSWER_AGAIN */
void kept_asked(struct qp *qp, const struct packet *p) REQUIRES(qp->lock);
/* Answers again. False: the tx batch was too small. */
bool kept_run(struct qp *qp, struct tx_batch *batch);

#endif
