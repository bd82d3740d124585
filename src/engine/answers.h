/* SPDX-License-Identifier: BSD-2-Clause */
/* Responses of the responder: a ring of those that wait to be sent, and records by which a duplicate READ or atomic is
 * answered again (IBTA 9.7.5.1.4, 9.7.5.1.5). With qp->lock. */
#ifndef UROCE_ENGINE_ANSWERS_H
#define UROCE_ENGINE_ANSWERS_H

#include "object/early.h"
#include "object/qp.h"

/* The record of the request that this PSN is a duplicate of; NULL: none. */
struct answer_record *find_answer(const struct responder *r, psn_t psn, bool is_read);
/* Makes room for `resources` READs and atomics of the peer at once; keeps those that wait. 0 or -ENOMEM. */
int responder_start(struct qp *qp, uint32_t resources);
/* Forgets everything, in RESET. */
void responder_stop(struct qp *qp);
/* The i-th response that waits, oldest first. */
struct response *response_at(struct responder *r, uint32_t i);
/* Makes room for one more response; those to duplicates give way. False: no room. */
bool make_room(struct responder *r);
/* Appends a response. A response to a duplicate request replaces all that wait from its PSN on: the peer has gone
 * back to it and will send the others again. */
void respond(struct responder *r, const struct response *response);
/* True if a waiting READ response will reach this PSN: a second one would only take the entry of another. */
bool is_coming(struct qp *qp, psn_t psn);
/* The record for the next answer. The peer waits for no more answers than there are records. */
struct answer_record *next_answer(struct responder *r);

#endif
