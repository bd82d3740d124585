/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester of RC: work requests -> request packets (IBTA 9.7.2, 9.7.3), when the window and the peer let them go.
 * With qp->lock. */
#ifndef UROCE_ENGINE_REQUESTER_H
#define UROCE_ENGINE_REQUESTER_H

#include "engine/tx_batch.h"

/* Makes request packets. True: the tx batch was too small. */
bool requester_run(struct qp *qp, struct tx_batch *batch);
/* The work request at the cursor, of one packet, is sent. Whether that asks for an ACK. */
bool requester_sends_only(struct qp *qp, const struct wqe *w, uint64_t now, uint32_t budget);
/* Whether the cursor could move if the tx batch had room. */
bool requester_can_run(const struct qp *qp);

#endif
