/* SPDX-License-Identifier: BSD-2-Clause */
/* The one way out: every packet of every link leaves here, whoever made it. Who wants to see, change or lose packets
 * that leave does it in transmit_note(). */
#ifndef UROCE_TRANSMIT_H
#define UROCE_TRANSMIT_H

#include "base/trace.h"
#include "engine/engine.h"
#include "link/record.h"
#include "link/ring.h"
#include "loop/local_peer.h"

/* Of a packet that leaves; in the trace, what it leaves by. */
enum transmit_by { BY_UDP, BY_RING };

static inline __attribute__((always_inline)) void transmit_note(const struct packet *p, enum transmit_by by)
{
	trace(send, p->dest_qpn, p->psn.v, p->opcode, p->length, packet_bytes(p), by);
}

/* Sends packets in order by a link. Returns how many are done with; the rest found the socket's buffer full for long.
 * More than there are: LINK_UNREADABLE (link.h). By a local peer's ring: with its lock held, and room in the ring. */
uint32_t transmit(struct link *link, const struct link_tx *tx, uint32_t count);

/* The same of a packet of the fast path, whose payload stands in its place in the ring already, behind `header` bytes
 * that this fills in: the caller has most of it in registers. */
static inline __attribute__((always_inline)) void transmit_placed(struct local_peer *n, struct ring_mark *at,
								  const struct packet *p, uint32_t header,
								  const struct path *path) REQUIRES(n->lock)
{
	transmit_note(p, BY_RING);
	record_put_fast(at, p, path->traffic_class, &path->sgid);
	ring_publish_at(&n->tx_ring, at, header + packet_carries(p));
}

#endif
