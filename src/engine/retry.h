/* SPDX-License-Identifier: BSD-2-Clause */
/* Loss: go-back-N, receiver-not-ready, and the consequences of the timers in timers.h. With qp->lock. */
#ifndef UROCE_ENGINE_RETRY_H
#define UROCE_ENGINE_RETRY_H

#include "engine/cursor.h"

/* Puts the cursor back to `psn`, which lies in [una, high]. */
void go_back(struct qp *qp, psn_t psn, enum retry_reason reason);
/* Sends everything in flight again, by a new path. */
void retry_on_path(struct qp *qp, uint64_t now);
/* Uses up a retry. False: none was left, and the request at the head has failed. */
bool spend_retry(struct qp *qp);
/* Handles an RNR NAK: sends nothing until its time is over, unless no RNR retry is left. */
void wait_for_receiver(struct qp *qp, psn_t psn, uint8_t timer, uint64_t now);
/* Handles the transport timer and the tail-loss probe, as far as they are due. */
void retry_expire(struct qp *qp, uint64_t now);

#endif
