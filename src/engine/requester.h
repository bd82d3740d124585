/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester of RC: makes request packets from work requests (IBTA 9.7.2, 9.7.3), as the window and the peer allow.
 * With qp->lock. */
#ifndef UROCE_ENGINE_REQUESTER_H
#define UROCE_ENGINE_REQUESTER_H

#include "engine/tx_batch.h"

/* Makes request packets. True: the tx batch was too small. */
bool requester_run(struct qp *qp, struct tx_batch *batch);
/* Sends the work request at the cursor, of one packet. True: that requests an ACK. */
bool requester_sends_only(struct qp *qp, const struct wqe *w, uint64_t now, uint32_t budget);
/* True if the cursor could move if the tx batch had room. */
bool requester_can_run(const struct qp *qp);

#endif
