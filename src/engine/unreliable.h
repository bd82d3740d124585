/* SPDX-License-Identifier: BSD-2-Clause */
/* UC, UD and raw packets: the requester of all three, in place of requester.h, and the responders of UC and UD. With
 * qp->lock. */
#ifndef UROCE_ENGINE_UNRELIABLE_H
#define UROCE_ENGINE_UNRELIABLE_H

#include "engine/tx_batch.h"
#include "object/qp.h"
#include "wire/packet.h"

/* Make packets, in place of requester_run() and requester_can_run(). */
bool unreliable_run(struct qp *qp, struct tx_batch *batch);
bool unreliable_can_run(const struct qp *qp);
/* Completes requests of earlier tx batches, which have been sent: their memory is the application's again. */
void unreliable_sent(struct qp *qp);
/* Take a packet; `from`: the sender's GID. */
void uc_receive(struct qp *qp, const struct packet *p);
void ud_receive(struct qp *qp, const struct packet *p, const union ibv_gid *from);

#endif
