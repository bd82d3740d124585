/* SPDX-License-Identifier: BSD-2-Clause */
/* Ways to peers: sockets connected to a peer's port 4791 that only send. The kernel looks up their route once and not
 * for each datagram: small messages by UDP take 5 to 13% longer without (docs/udp.md); bandwidth is the same. Their
 * ports are their own, as RoCEv2 leaves the source port open, so that all packets arrive at the sockets that steering
 * knows. The ports are of a range by which another uroce recognizes a uroce, also if no packet from this peer's port
 * 4791 has come.
 *
 * The kernel numbers what a connected socket sends: one more for each datagram, whose packets count on from there, but
 * from an unknown start; and the ICRC covers the number. So two empty datagrams are sent first (receivers drop those),
 * and the kernel is asked for copies with time stamps, which have all headers. Where that does not work, there is no
 * way, and the link's own socket sends; so it does if a way refuses a datagram, but not for want of room, or while
 * another thread uses the way. After a refusal the number may have been used or not, so the way is closed. */
#ifndef UROCE_UDP_WAY_H
#define UROCE_UDP_WAY_H

#include "link/udp_state.h"

/* The way to that address, with its lock held; NULL: the link's own socket sends. */
struct udp_way *udp_way_enter(struct udp *udp, const union ibv_gid *to);
/* One datagram was sent, or `err` says why not: -errno. Drops the lock. */
void udp_way_leave(struct udp_way *way, int err);
/* Bytes, as the kernel counts them, in the fullest send buffer of a way. */
uint32_t udp_way_queued(struct udp *udp);
void udp_way_init(struct udp *udp);
void udp_way_close(struct udp *udp);

#endif
