/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder of UC. With qp->lock. */
#ifndef UROCE_ENGINE_UC_H
#define UROCE_ENGINE_UC_H

#include "object/qp.h"
#include "wire/packet.h"

/* Takes a packet of a UC QP. */
void uc_receive(struct qp *qp, const struct packet *p);

#endif
