/* SPDX-License-Identifier: BSD-2-Clause */
/* Transmission. The one way out: every packet of every link leaves here. A hook that sees, changes or drops packets
 * that leave belongs in transmit_note(). */
#ifndef UROCE_PORT_TRANSMIT_H
#define UROCE_PORT_TRANSMIT_H

#include "base/trace.h"
#include "engine/engine.h"
#include "link/record.h"
#include "link/ring.h"
#include "object/capture.h"
#include "port/local_peer.h"

/* The link by which a packet leaves, as the trace shows it. */
enum transmit_by { BY_UDP, BY_RING };

static inline __attribute__((always_inline)) void transmit_note(const struct packet *p, enum transmit_by by)
{
	trace(send, p->dest_qpn, p->psn.v, p->opcode, p->length, packet_bytes(p), by);
}

/* Shows a leaving packet to a capture. */
void transmit_capture(struct link *link, const struct link_tx *tx);
/* The same for a packet that was placed in a ring, read from its record: the values are in registers. */
__attribute__((cold)) void transmit_capture_record(const void *record, uint32_t bytes, const struct path *path);

/* Waits for GPU copies that a packet may announce. */
__attribute__((cold)) void transmit_settle(void);

/* Sends packets in order by a link. Returns the number of packets that are done. The others found the send buffer full
 * and are lost: a caller with much to send reads the capacity first. More than `count`: LINK_UNREADABLE (link.h). For
 * the ring of a local peer the caller holds its lock and has checked the room. */
uint32_t transmit(struct link *link, const struct link_tx *tx, uint32_t count);

/* Sends a packet of the fast path, whose payload is in the ring already; fills in the `header` bytes before it. Inline,
 * as the caller has the values in registers. */
static inline __attribute__((always_inline)) void transmit_placed(struct local_peer *peer, struct ring_mark *at,
								  const struct packet *p, uint32_t header,
								  const struct path *path) REQUIRES(peer->lock)
{
	record_put_fast(at, p, path->traffic_class, &path->sgid);
	if (hooks_any()) {
		transmit_settle();
		transmit_note(p, BY_RING);
		transmit_capture_record(at, header + packet_carries(p), path);
	}
	ring_publish_at(&peer->tx_ring, at, header + packet_carries(p));
}

/* The same for the record of a message that is delivered, on a QP that no hook listens to. `carried`: bytes behind it.
 */
static inline __attribute__((always_inline)) void transmit_delivered(struct local_peer *peer, struct ring_mark *at,
								     const struct packet *p, uint32_t carried,
								     const struct path *path) REQUIRES(peer->lock)
{
	record_put_delivered(at, p, path->traffic_class);
	ring_publish_at(&peer->tx_ring, at, sizeof(struct record) + carried);
}

#endif
