/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder's half of reassembly.h: keeps data of READ responses, and answers again. With qp->lock. */
#ifndef UROCE_ENGINE_KEPT_H
#define UROCE_ENGINE_KEPT_H

#include "engine/tx_batch.h"

/* Keeps data of READ responses from now on. */
void kept_begin(struct qp *qp);
/* Copies all data of a response that begins, if possible. */
void kept_take(struct qp *qp, const struct response *s);
/* The bytes at this PSN; NULL: not kept. */
const char *kept_at(const struct qp *qp, psn_t psn, uint32_t length);
/* Takes an OPCODE_ANSWER_AGAIN. */
void kept_asked(struct qp *qp, const struct packet *p) REQUIRES(qp->lock);
/* Answers again. False: the tx batch was too small. */
bool kept_run(struct qp *qp, struct tx_batch *batch);

#endif
