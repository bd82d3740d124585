/* SPDX-License-Identifier: BSD-2-Clause */
/* The completer: ACKs, NAKs and responses against the requests that wait for them (IBTA 9.7.5, 9.7.7). With
 * qp->lock. */
#ifndef UROCE_ENGINE_COMPLETER_H
#define UROCE_ENGINE_COMPLETER_H

#include "object/qp.h"
#include "wire/packet.h"

/* An ACK, a NAK or a response. */
void completer_receive(struct qp *qp, const struct packet *p, uint64_t now);
/* A request of a local peer acknowledges all up to this PSN. */
void completer_acknowledged(struct qp *qp, psn_t psn, uint64_t now);
/* A congestion notification: halves the window, once per round trip. Its PSN is 0 (annex A17); that of a uroce is the
 * one that it expects, so that nobody can forge it who does not know what is in flight. */
void completer_congested(struct qp *qp, psn_t psn);
/* A selective acknowledgement. */
void completer_selective(struct qp *qp, const struct packet *p, uint64_t now);
/* OPCODE_ANSWERED_AGAIN: reassembly.h */
void completer_answered_again(struct qp *qp, const struct packet *p, uint64_t now);
/* The WQE at the head may have failed on this side, and waited for those before it. */
void completer_settle(struct qp *qp);

#endif
