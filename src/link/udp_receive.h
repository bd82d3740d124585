/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving by the udp link: one system call brings a train, or one packet. A train is split at the size that UDP_GRO
 * reports. The report (recvmsg() with room for control messages) costs 0.2 us more for each datagram than recvfrom();
 * so while datagrams are small, there is none, and the ICRCs show where packets end. */
#ifndef UROCE_UDP_RECEIVE_H
#define UROCE_UDP_RECEIVE_H

#include "link/udp_state.h"

/* A datagram that came in a frame. Its payload is in udp->buffer, its sender in udp->from. */
struct udp_datagram {
	uint32_t bytes;
	uint16_t identification; /* of its first packet */
	uint8_t traffic_class;
};
/* Delivers its packets. Their number. */
uint32_t udp_take(struct udp *udp, const struct udp_datagram *d, link_deliver *deliver, void *arg);
/* The function of struct link_ops. */
uint32_t udp_receive(struct link *link, uint32_t batch, link_deliver *deliver, void *arg);

#endif
