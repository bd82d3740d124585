/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective retransmission of responses, between two uroce: the requester keeps those that come before their turn, and
 * asks again only for those that are missing (reassembly.c), with a request of its own (OPCODE_ANSWER_AGAIN). IBTA
 * orders READs after each other, so memory must not be read again for one when later ones have been answered. So the
 * responder answers from a copy of what it has sent (kept.c, OPCODE_ANSWERED_AGAIN). It makes copies once a READ has
 * been asked for again: the first loss costs all that comes after it, as with other peers. With qp->lock. */
#ifndef UROCE_ENGINE_REASSEMBLY_H
#define UROCE_ENGINE_REASSEMBLY_H

#include "engine/board.h"
#include "engine/tx_batch.h"

/* A response is missing, and the requester goes back: keep responses from now on, if the peer can answer again. */
void reassembly_begin(struct qp *qp);
/* A response has come before its turn. False: the requester must go back. */
bool reassembly_keep(struct qp *qp, const struct packet *p, uint64_t now);
/* The peer has taken all before `end`, but responses are missing. False: the requester must go back. */
bool reassembly_told(struct qp *qp, psn_t end, uint64_t now);
/* OPCODE_ANSWERED_AGAIN. False: it is of no use. Otherwise *response is what it stands for. */
bool reassembly_answered(struct qp *qp, const struct packet *p, struct packet *response, uint64_t now);
/* Nothing has been heard for long. What is missing before what is kept is lost; if nothing is, the last response that
 * is awaited, or a NAK, will tell. False: the requester must go back. */
bool reassembly_probe(struct qp *qp, uint64_t now);
/* The requester goes back, as it was not answered. */
void reassembly_ignored(struct requester *r);
/* Asks again for responses that are lost. False: not for all, as the window or the tx batch is full. */
bool reassembly_ask(struct qp *qp, struct tx_batch *batch);
/* Looks for what is missing among the responses, after others have been taken. */
void reassembly_look(struct qp *qp);

#endif
