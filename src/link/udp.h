/* The udp link: RoCEv2 packets through one UDP socket, bound to a local address and port 4791. Consecutive packets to
 * one destination travel as a train: one system call, one trip through the network stack (UDP_SEGMENT, UDP_GRO).
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_UDP_H
#define UROCE_UDP_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/lock.h"
#include "link/link.h"
#include "wire/icrc.h"

enum {
	UDP_TRAIN_PACKETS = 64,	  /* the kernel's own limit is 64 before Linux 6.9 */
	UDP_TRAIN_BYTES = 65000,  /* of UDP payload: an IP packet is 65,535 bytes at most. 62 packets of path MTU 1024 fit */
	UDP_DATAGRAM_BYTES = 65536,
	UDP_SOURCES = 64,
	UDP_HOP_DEFAULT = 64,
};

/* Each counter has the unit that its name says; relaxed, as nothing follows from them. */
struct udp_counters {
	_Atomic uint64_t tx_packets, tx_trains, tx_bytes;
	_Atomic uint64_t tx_refused; /* packets that the network stack did not take: too long, no route, ... */
	_Atomic uint64_t tx_full;    /* times that the send buffer was full */
	_Atomic uint64_t rx_packets, rx_trains, rx_bytes;
	_Atomic uint64_t rx_icrc, rx_malformed, rx_errors;
};

/* Binds port 4791 of `gid` (for a link-local address, of the interface that has it). 0, or -errno with *link
 * untouched: EADDRINUSE (somebody holds the port who does not share it), EADDRNOTAVAIL (no such address here),
 * ENOMEM, or what socket(2) said. */
int link_udp_open(const union ibv_gid *gid, struct link **link);

/* The same for a multicast group, `netif` being the interface on which it is joined: a link that only receives, and
 * that any number of processes and users may have at the same time, each with its own copy of every packet. */
int link_udp_join(const union ibv_gid *group, int netif, struct link **link);

const struct udp_counters *link_udp_counters(const struct link *link);

/* For tests: send as a kernel without UDP_SEGMENT would have it. */
void link_udp_refuse_segments(struct link *link);

/* What follows is between udp.c, udp_send.c, udp_manner.c and udp_receive.c. */

union udp_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Where packets come from: what their ICRCs have in common, and what the next IPv4 identification will be. */
struct udp_source {
	union ibv_gid gid;
	uint16_t port; /* 0: unused */
	bool zero;     /* its datagrams start from identification 0, as ours do */
	uint16_t next;
	uint16_t segment[2]; /* bytes of each packet but the last, in the last small datagram and in the last large one */
	struct icrc_flow flow;
};

/* How a datagram is sent. */
struct udp_manner {
	uint16_t segment; /* bytes of each packet of a train but the last; 0: one packet */
	uint8_t hops;	  /* 0: UDP_HOP_DEFAULT */
	uint8_t traffic_class;
};

struct udp {
	struct link link;
	uint32_t scope; /* interface index of a link-local address, else 0 */
	bool is_ipv4;
	_Atomic bool no_segments; /* the kernel or the device cannot UDP_SEGMENT; relaxed: a hint */
	struct udp_counters counters;

	/* see udp_manner.c */
	struct lock own_lock;
	struct udp_manner own;	  /* the socket's settings */
	struct udp_manner wanted; /* what the last datagram needed ... */
	uint32_t times;		  /* ... and how many in a row */
	bool own_refused;

	/* for receive(): one thread at a time */
	struct msghdr message;
	struct iovec iov;
	union udp_address from;
	struct udp_source source[UDP_SOURCES];
	bool sees_marks; /* the kernel tells of congestion marks ... */
	uint32_t looks;	 /* ... since, or not since, so many datagrams: see watch_marks() */
	int32_t calm;	 /* how long datagrams have been small: see watch_size() */
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int)) * 2];
	_Alignas(CACHE_LINE) uint8_t buffer[UDP_DATAGRAM_BYTES];
};

uint32_t udp_send(struct link *link, const struct link_tx *tx, uint32_t count);
uint32_t udp_receive(struct link *link, uint32_t batch, link_deliver *deliver, void *arg);

/* One datagram of so many bytes, by its address and pieces; the rest of *m is set here. 0 or -errno. */
int udp_transmit(struct udp *udp, struct msghdr *m, struct udp_manner want, uint32_t bytes);
/* UDP_SEGMENT is unknown (before Linux 4.18), or the device cannot do it. EINVAL and EMSGSIZE also come of packets
 * longer than the MTU: sending them one by one tells. */
bool udp_may_lack_segments(int err);

static inline void udp_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#endif
