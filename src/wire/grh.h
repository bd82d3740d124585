/* The global route header: the 40 bytes that stand before the data in the receive of a datagram. For IPv4
 * these are 20 bytes of no meaning and the IP header (IBTA annex A17.4.5.2). SPDX-License-Identifier:
 * BSD-2-Clause */
#ifndef UROCE_GRH_H
#define UROCE_GRH_H

#include "wire/packet.h"

#define GRH_BYTES 40

/* Which kind it is, as adapters say it in ibv_wc.sl of a datagram, where RoCE has no service level: annex A17.4.5.1
 * demands a flag somewhere in the completion, and UCX looks for it there. */
enum grh_kind {
	GRH_IPV6 = 0x9, /* 8: there is a UDP header */
	GRH_IPV4 = 0xa,
};
enum grh_kind grh_kind(const struct packet *p);

/* The header of a received packet that came from `from` to p->to (addresses as GIDs: IPv4 is ::ffff:a.b.c.d).
 * Of what a socket does not show, it has likely values: the hop limit is 64, the flow label and IPv4
 * identification are 0. */
void grh_encode(const struct packet *p, const uint8_t from[16], uint8_t out[GRH_BYTES]);

#endif
