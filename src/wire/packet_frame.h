/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers of an Ethernet frame before a RoCEv2 packet: Ethernet, IPv4 or IPv6, UDP. No I/O; any thread may call. A
 * VLAN's tag is put and taken by the VLAN's interface. */
#ifndef UROCE_PACKET_FRAME_H
#define UROCE_PACKET_FRAME_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	FRAME_ETHERNET = 14,
	FRAME_MOST = FRAME_ETHERNET + 40 + 8, /* bytes of headers */
};

/* A UDP datagram that is to be sent, or has come. */
struct packet_frame {
	union ibv_gid from, to;
	uint16_t port;		 /* it comes from; it goes to 4791 */
	uint16_t identification; /* of IPv4; 0 with IPv6 */
	uint8_t traffic_class, hops;
	uint32_t flow_label;	/* of IPv6 */
	uint32_t bytes;		/* of UDP payload */
	const uint8_t *payload; /* of a datagram that has come, inside the frame */
};

/* Bytes of headers before the payload. */
static inline uint32_t packet_frame_headers(bool is_ipv4)
{
	return FRAME_ETHERNET + (is_ipv4 ? 20 : 40) + 8;
}

/* How the UDP checksum is made. */
enum frame_sum {
	FRAME_SUM_NONE,	  /* 0: allowed with IPv4 */
	FRAME_SUM_PSEUDO, /* of the pseudo header: the device adds the rest */
};

/* Writes the headers behind an Ethernet header, which the caller has written. Returns their number with it. */
uint32_t packet_frame_put(const struct packet_frame *f, enum frame_sum sum, uint8_t *out);

/* What a frame holds; its bytes are a stranger's. Looks at FRAME_MOST of them at most. -EBADMSG: no whole, unfragmented
 * UDP datagram to port 4791, or IPv4 options, IPv6 extension headers, a wrong IPv4 checksum, lengths that do not fit.
 * The Ethernet destination and the UDP checksum are not looked at: the kernel says whom a frame is for, and the ICRC
 * covers more. */
int packet_frame_parse(struct packet_frame *f, const uint8_t *frame, uint32_t bytes);

#endif
