/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of fault injection on packets that arrive: they are asked about its receive or region, or its last bytes are
 * stored first. With qp->lock. */
#ifndef UROCE_ENGINE_PLACE_LAST_H
#define UROCE_ENGINE_PLACE_LAST_H

#include "fault/inject.h"
#include "object/qp.h"
#include "wire/packet.h"

/* Takes the receive for the first packet of a SEND that is next in order, and asks about its memory. Returns the
 * packet's delay in ns. */
uint64_t faults_use_receive(struct qp *qp, const struct packet *p);

#endif
