/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder: applies request packets to memory and receives, and answers them (IBTA 9.7.4, 9.7.5). Each rule is one
 * function, in the specification's order (checks.c); outcome[] has the consequences of each verdict. With qp->lock. */
#ifndef UROCE_ENGINE_RESPONDER_H
#define UROCE_ENGINE_RESPONDER_H

#include "engine/tx_batch.h"
#include "object/qp.h"
#include "wire/packet.h"

/* Takes a request of RC or XRC. `now`: ns. */
void responder_receive(struct qp *qp, const struct packet *p, uint64_t now);
/* Handles a READ response at this PSN whose memory cannot be read: engine_unreadable(). */
void responder_unreadable(struct qp *qp, psn_t psn);
/* Makes the responses in PSN order. True: the tx batch was too small. */
bool responder_run(struct qp *qp, struct tx_batch *batch);
/* Makes all owed packets except responses. True: the tx batch was too small. */
bool responder_acknowledge(struct qp *qp, struct tx_batch *batch);
/* True if a response or an acknowledgement is to leave; `delay_ack`: as in the tx batch. */
bool responder_has_work(const struct qp *qp, bool delay_ack);

#endif
