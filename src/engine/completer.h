/* SPDX-License-Identifier: BSD-2-Clause */
/* The completer: takes ACKs, NAKs and responses for the requests that wait for them (IBTA 9.7.5, 9.7.7). With
 * qp->lock. */
#ifndef UROCE_ENGINE_COMPLETER_H
#define UROCE_ENGINE_COMPLETER_H

#include "object/qp.h"
#include "wire/packet.h"

/* Takes an ACK, a NAK or a response. */
void completer_receive(struct qp *qp, const struct packet *p, uint64_t now);
/* Takes a congestion notification: halves the window, once per round trip. The PSN is 0 (annex A17); from uroce, the
 * expected one, so that only an observer of the flow can forge it. */
void completer_congested(struct qp *qp, psn_t psn);
/* Takes a selective acknowledgement. */
void completer_selective(struct qp *qp, const struct packet *p, uint64_t now);
/* Takes an OPCODE_ANSWERED_AGAIN: reassembly.h. */
void completer_answered_again(struct qp *qp, const struct packet *p, uint64_t now);
/* Fails the WQE at the head, if it has failed on this side and waited for those before it. */
void completer_settle(struct qp *qp);

#endif
