/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder of UD. With qp->lock. */
#ifndef UROCE_ENGINE_UD_H
#define UROCE_ENGINE_UD_H

#include "object/qp.h"
#include "wire/packet.h"

void ud_receive(struct qp *qp, const struct packet *p, const union ibv_gid *from);

#endif
