/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that answer READs and atomics, in PSN order. With qp->lock. */
#ifndef UROCE_ENGINE_RESPOND_H
#define UROCE_ENGINE_RESPOND_H

#include "engine/tx_batch.h"

/* Handles a READ response at this PSN whose memory cannot be read: engine_unreadable(). */
void responder_unreadable(struct qp *qp, psn_t psn);
/* Makes the responses in PSN order. True: the tx batch was too small. */
bool responder_run(struct qp *qp, struct tx_batch *batch);

#endif
