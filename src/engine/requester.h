/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester of RC: makes request packets from work requests (IBTA 9.7.2, 9.7.3), as the window and the peer allow.
 * With qp->lock. */
#ifndef UROCE_ENGINE_REQUESTER_H
#define UROCE_ENGINE_REQUESTER_H

#include "engine/tx_batch.h"

/* Makes request packets. True: the tx batch was too small. */
bool requester_run(struct qp *qp, struct tx_batch *batch);
/* Limits the window to what the peer's socket holds, `budget` bytes. */
void requester_limit(struct requester *r, uint32_t budget);
/* Notes that `count` requests of one packet each, from the cursor on, leave as these packets; sets their ack_request.
 */
void requester_sends_only(struct qp *qp, struct packet *packet, uint32_t count, uint64_t now);
/* True if the cursor could move if the tx batch had room. */
bool requester_can_run(const struct qp *qp);

#endif
