/* SPDX-License-Identifier: BSD-2-Clause */
/* The global route header: the 40 bytes before the data in the receive of a datagram. For IPv4 these are 20 bytes
 * without meaning and the IP header (IBTA annex A17.4.5.2). */
#ifndef UROCE_GRH_H
#define UROCE_GRH_H

#include <string.h>

#include "wire/packet.h"

#define GRH_BYTES 40

/* The kind of header, which adapters report in ibv_wc.sl of a datagram, since RoCE has no service level: annex
 * A17.4.5.1 requires a flag somewhere in the completion, and UCX reads it there. */
enum grh_kind {
	GRH_IPV6 = 0x9, /* bit 3: there is a UDP header */
	GRH_IPV4 = 0xa,
};
enum grh_kind grh_kind(const struct packet *p);

/* Writes the header of a received packet from `from` to p->to (addresses as GIDs: IPv4 is ::ffff:a.b.c.d). Fields that
 * a socket does not show get likely values: the hop limit is 64, the flow label and IPv4 identification are 0. */
void grh_encode(const struct packet *p, const uint8_t from[16], uint8_t out[GRH_BYTES]);

/* Cache of the last packet's header, usually also the next one's: all values that it depends on, except the
 * transport. */
struct grh_kept {
	uint64_t from[2], to[2];
	uint32_t length; /* bytes of the payload */
	uint8_t opcode, traffic_class;
	uint8_t kind;
	uint8_t header[GRH_BYTES];
};
/* The header of this packet; valid until the next call. */
static inline const uint8_t *grh_keep(struct grh_kept *kept, const struct packet *p, const uint8_t from[16])
{
	uint64_t ends[4];

	memcpy(&ends[0], from, 16);
	memcpy(&ends[2], p->to, 16);
	if (unlikely(kept->length != p->length || kept->opcode != p->opcode ||
		     kept->traffic_class != p->traffic_class || kept->from[0] != ends[0] || kept->from[1] != ends[1] ||
		     kept->to[0] != ends[2] || kept->to[1] != ends[3])) {
		memcpy(kept->from, &ends[0], 16);
		memcpy(kept->to, &ends[2], 16);
		kept->length = p->length;
		kept->opcode = p->opcode;
		kept->traffic_class = p->traffic_class;
		kept->kind = grh_kind(p);
		grh_encode(p, from, kept->header);
	}
	return kept->header;
}

#endif
