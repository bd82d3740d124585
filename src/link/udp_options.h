/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending one datagram: the segment size of its train, hop limit, traffic class. The kernel takes these from the
 * socket's options or from control messages. A control message costs 0.1 us or more, and a setsockopt() as much, so the
 * socket gets the options of consecutive small datagrams. Only the holder of the socket's lock may rely on them; other
 * threads do not wait, and use control messages for all. */
#ifndef UROCE_UDP_OPTIONS_H
#define UROCE_UDP_OPTIONS_H

#include "link/udp_state.h"

/* Sends `bytes` to the address and from the pieces of *m, by the link's own socket. 0 or -errno. */
int udp_transmit(struct udp *udp, struct msghdr *m, struct udp_options want, uint32_t bytes);
/* The same by another socket. */
int udp_transmit_by(const struct udp *udp, struct udp_tx *tx, struct msghdr *m, struct udp_options want, uint32_t bytes)
	REQUIRES(tx->lock);
/* Whether `err` may mean that UDP_SEGMENT is unknown (before Linux 4.18), or that the device cannot do it. EINVAL and
 * EMSGSIZE also come of packets longer than the MTU: sending them one by one tells. */
bool udp_may_lack_segments(int err);

#endif
