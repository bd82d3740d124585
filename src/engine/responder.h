/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder: applies request packets to memory and receives, and answers them (IBTA 9.7.4, 9.7.5). Each rule is one
 * function, in the specification's order (checks.c); outcome[] has the consequences of each verdict. With qp->lock. */
#ifndef UROCE_ENGINE_RESPONDER_H
#define UROCE_ENGINE_RESPONDER_H

#include "object/qp.h"
#include "wire/packet.h"

/* Takes a request of RC or XRC. `now`: ns. */
void responder_receive(struct qp *qp, const struct packet *p, uint64_t now);

#endif
