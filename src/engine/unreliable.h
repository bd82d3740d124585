/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester of UC, UD and raw packets: in place of requester.h. With qp->lock. */
#ifndef UROCE_ENGINE_UNRELIABLE_H
#define UROCE_ENGINE_UNRELIABLE_H

#include "engine/tx_batch.h"

/* Make packets, in place of requester_run() and requester_can_run(). */
bool unreliable_run(struct qp *qp, struct tx_batch *batch);
bool unreliable_can_run(const struct qp *qp);
/* Completes requests of earlier tx batches, which have been sent: their memory is the application's again. */
void unreliable_sent(struct qp *qp);

#endif
