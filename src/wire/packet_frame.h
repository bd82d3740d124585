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
	uint16_t port;		 /* source port; the destination is 4791 */
	uint16_t identification; /* IPv4 identification; 0 with IPv6 */
	uint8_t traffic_class, hops;
	uint32_t flow_label;	/* IPv6 flow label */
	uint32_t bytes;		/* bytes of UDP payload */
	const uint8_t *payload; /* payload of a received datagram, inside the frame */
};

/* Bytes of headers before the payload. */
static inline uint32_t packet_frame_headers(bool is_ipv4)
{
	return FRAME_ETHERNET + (is_ipv4 ? 20 : 40) + 8;
}

/* Kinds of UDP checksum. */
enum frame_sum {
	FRAME_SUM_NONE,	  /* 0: allowed with IPv4 */
	FRAME_SUM_PSEUDO, /* the pseudo header's: the device adds the rest */
};

/* Writes the headers behind an Ethernet header, which the caller has written. Returns their number with it. */
uint32_t packet_frame_put(const struct packet_frame *f, enum frame_sum sum, uint8_t *out);

/* Parses a frame, whose bytes are a stranger's; reads FRAME_MOST of them at most. -EBADMSG: no whole, unfragmented UDP
 * datagram to port 4791, or IPv4 options, IPv6 extension headers, a wrong IPv4 checksum, lengths that do not fit. The
 * Ethernet destination and the UDP checksum are not checked: the kernel tells whether a frame is for this host, and the
 * ICRC covers more. */
int packet_frame_parse(struct packet_frame *f, const uint8_t *frame, uint32_t bytes);

#endif
