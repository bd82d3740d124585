/* SPDX-License-Identifier: BSD-2-Clause */
/* What rules of fault injection do to a packet that arrives: its receive or region is asked about, or its last bytes
 * are stored before it. With qp->lock. */
#ifndef UROCE_ENGINE_PLACE_LAST_H
#define UROCE_ENGINE_PLACE_LAST_H

#include "fault/inject.h"
#include "object/qp.h"
#include "wire/packet.h"

/* The first packet of a SEND that is next in order: takes its receive, and asks about the memory of that. Returns for
 * how long the packet is to wait, ns. */
uint64_t faults_use_receive(struct qp *qp, const struct packet *p);

#endif
