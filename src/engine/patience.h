/* SPDX-License-Identifier: BSD-2-Clause */
/* Patience with a local receiver that posts its receives as fast as it can. Some programs allow no RNR retries, because
 * no network is faster than they are; a local peer is. So a message that finds no receive is dropped silently for a
 * while. If a receive comes in that time, the sender gets NAK_AGAIN, which uses up no retry; otherwise the RNR NAK.
 * Over a network both ends do as adapters do. With qp->lock. */
#ifndef UROCE_ENGINE_PATIENCE_H
#define UROCE_ENGINE_PATIENCE_H

#include "object/qp.h"

/* Queues the RNR NAK with this end's timer. */
void starve(struct qp *qp);
/* Handles a message that has found no receive. False: the peer must be told. */
bool patience_begin(struct qp *qp);
/* Looks again for a receive, if that is due. `now`: ns. */
void patience_expire(struct qp *qp, uint64_t now);

#endif
