/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder's half of reassembly.h: it keeps what READs were answered, and answers again. With qp->lock. */
#ifndef UROCE_ENGINE_KEPT_H
#define UROCE_ENGINE_KEPT_H

#include "engine/tx_batch.h"

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
