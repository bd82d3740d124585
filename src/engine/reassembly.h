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

/* Begins to keep responses, if the peer can answer again: one is missing, and the requester goes back. */
void reassembly_begin(struct qp *qp);
/* Keeps a response that came before its turn. False: the requester must go back. */
bool reassembly_keep(struct qp *qp, const struct packet *p, uint64_t now);
/* Takes the news that the peer has taken all before `end`, while responses are missing. False: the requester must go
 * back. */
bool reassembly_told(struct qp *qp, psn_t end, uint64_t now);
/* Takes an OPCODE_ANSWERED_AGAIN. *response: the response that it stands for. False: of no use. */
bool reassembly_answered(struct qp *qp, const struct packet *p, struct packet *response, uint64_t now);
/* Handles a long silence. Missing responses before kept ones are lost; if there are none, the last awaited response, or
 * a NAK, will tell. False: the requester must go back. */
bool reassembly_probe(struct qp *qp, uint64_t now);
/* Notes that the requester goes back, as it was not answered. */
void reassembly_ignored(struct requester *r);
/* Requests lost responses again. False: not all, as the window or the tx batch is full. */
bool reassembly_ask(struct qp *qp, struct tx_batch *batch);
/* Looks for missing responses, after others have been taken. */
void reassembly_look(struct qp *qp);

#endif
