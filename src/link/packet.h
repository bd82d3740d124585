/* SPDX-License-Identifier: BSD-2-Clause */
/* The packet link: RoCEv2 packets as Ethernet frames of our own making. They are sent by one packet socket and received
 * by another: they pass by the kernel's IP, UDP, netfilter and, where they come in, by its socket as well. It has a udp
 * link inside, which holds port 4791 (so that the kernel refuses nothing), and which sends and receives what is not for
 * frames: see packet_send.c and packet_filter.h. It needs CAP_NET_RAW in the network namespace. */
#ifndef UROCE_PACKET_LINK_H
#define UROCE_PACKET_LINK_H

#include "wire/packet_frame.h"
#include "link/packet_ring.h"
#include "link/train.h"
#include "link/udp_state.h"

enum { PACKET_HOPS = 64 };

/* Where frames to an address go. `lock` guards it. */
struct packet_hop {
	struct lock lock;
	union ibv_gid to;
	uint32_t looked; /* when that was asked: the link's `changes`; 0: never */
	bool by_frames;	 /* else by the udp link */
	bool stale;	 /* the kernel has to ask whether it is still there: so one train goes by the udp link */
	uint8_t mac[6], own_mac[6];
};

struct packet_link {
	int netif;
	int tx;			  /* a packet socket that only sends */
	int watch;		  /* neighbors, routes, interfaces: next_hop_watch() */
	_Atomic bool one_by_one;  /* the kernel does not cut frames (before Linux 6.2); relaxed: a hint */
	_Atomic uint32_t changes; /* of what `watch` tells; relaxed: a stale value sends one more train the old way */
	_Atomic uint64_t tx_frames, rx_frames;
	struct packet_hop hop[PACKET_HOPS];

	/* for receive(): one thread at a time */
	struct packet_ring ring;
	uint64_t looked, watched; /* ns: when it looked last at the UDP socket, and at `watch` */

	struct udp udp;
};

/* As link_udp_open(); `slot`: the QPs whose packets are to come to this process. Besides, -EPERM without the
 * capability; -ENODEV: the address is of no Ethernet interface. */
int link_packet_open(const union ibv_gid *gid, uint16_t slot, struct link **link);
bool link_is_packet(const struct link *link);
/* From now on packets for the QPs of all these slots come to this process. 0 or -errno. */
int link_packet_part(struct link *link, const uint16_t *slots, uint32_t count);

/* What follows is between packet.c, packet_send.c and packet_hop.c. */

uint32_t packet_send(struct link *link, const struct link_tx *tx, uint32_t count);
uint32_t packet_capacity(struct link *link);
/* The Ethernet header of frames to that address. False: what goes there leaves by the udp link. */
bool packet_hop_find(struct packet_link *p, const union ibv_gid *to, uint8_t header[FRAME_ETHERNET]);

#endif
