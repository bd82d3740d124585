/* The global route header: the 40 bytes that stand before the data in the receive of a datagram. For IPv4
 * these are 20 bytes of no meaning and the IP header (IBTA annex A17.4.5.2). SPDX-License-Identifier:
 * BSD-2-Clause */
#ifndef UROCE_GRH_H
#define UROCE_GRH_H

#include "wire/packet.h"

#define GRH_BYTES 40

/* The header of a received packet that came from `from` to p->to (addresses as GIDs: IPv4 is ::ffff:a.b.c.d).
 * Of what a socket does not show, it has likely values: the hop limit is 64, the flow label and IPv4
 * identification are 0. */
void grh_encode(const struct packet *p, const uint8_t from[16], uint8_t out[GRH_BYTES]);

#endif
