/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of acknowledgement that the responder owes: ACKs, NAKs, selective acknowledgements, congestion notifications.
 * With qp->lock. */
#ifndef UROCE_ENGINE_ACKNOWLEDGE_H
#define UROCE_ENGINE_ACKNOWLEDGE_H

#include "engine/tx_batch.h"

/* Makes all owed packets except responses. True: the tx batch was too small. */
bool responder_acknowledge(struct qp *qp, struct tx_batch *batch);
/* True if a response or an acknowledgement is to leave; `delay_ack`: as in the tx batch. */
bool responder_has_work(const struct qp *qp, bool delay_ack);

#endif
