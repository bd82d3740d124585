/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder: request packets -> memory, receives and responses (IBTA 9.7.4, 9.7.5). Each rule is one
 * function, in the specification's order (checks.c); outcome[] says what each verdict causes. With qp->lock. */
#ifndef UROCE_ENGINE_RESPONDER_H
#define UROCE_ENGINE_RESPONDER_H

#include "object/qp.h"
#include "wire/packet.h"

/* A request of RC or XRC. */
void responder_receive(struct qp *qp, const struct packet *p, uint64_t now);

#endif
