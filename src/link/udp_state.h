/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a udp link: for the files of the udp link, and for the packet link, which has a udp link inside. */
#ifndef UROCE_UDP_STATE_H
#define UROCE_UDP_STATE_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/lock.h"
#include "link/link.h"
#include "wire/icrc.h"

enum {
	UDP_DATAGRAM_BYTES = 65536,
	UDP_SOURCES = 64,
	UDP_WAYS = 16,
	UDP_HOP_DEFAULT = 64,
};

/* The unit of each is in its name. Relaxed. */
struct udp_counters {
	_Atomic uint64_t tx_packets, tx_trains, tx_bytes;
	_Atomic uint64_t tx_refused; /* packets that the network stack refused: too long, no route, ... */
	_Atomic uint64_t tx_full;    /* times that the send buffer was full */
	_Atomic uint64_t rx_packets, rx_trains, rx_bytes;
	_Atomic uint64_t rx_icrc, rx_malformed, rx_errors;
};

union udp_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* A sender of packets: what their ICRCs have in common, and the expected IPv4 identification. */
struct udp_source {
	union ibv_gid gid;
	uint16_t port;	      /* 0: unused */
	bool is_uroce;	      /* by its port */
	bool zero;	      /* identifications of each datagram start from 0: an unconnected socket */
	bool steps;	      /* from one more than those of the datagram before: a connected socket; else from one
			       * more than that of the packet before */
	bool known;	      /* the identification of the last datagram was the expected one */
	uint8_t misses;	      /* recent datagrams of which it was not */
	uint16_t start, next; /* identification of the last datagram's first packet, and after its last packet */
	uint16_t segment[2];  /* bytes of each packet but the last: in the last small datagram, in the last large one */
	uint32_t before_length, before; /* icrc_before() of packets of that length, which the last one had */
	struct icrc_flow flow;
};

/* Source ports of ways (udp_way.h), below those of rxe and other adapters, which start at 0xc000. */
#define UDP_WAY_PORT  0xb800u
#define UDP_WAY_PORTS 0x400u

/* How a datagram is sent. */
struct udp_options {
	uint16_t segment; /* bytes of each packet of a train but the last; 0: one packet */
	uint8_t hops;	  /* 0: UDP_HOP_DEFAULT */
	uint8_t traffic_class;
};

/* A socket that sends, and its options: udp_options.h. */
struct udp_tx {
	int fd;
	struct lock lock;
	struct udp_options own GUARDED_BY(&lock);    /* options of the socket */
	struct udp_options wanted GUARDED_BY(&lock); /* options of the last datagram */
	uint32_t times GUARDED_BY(&lock);	     /* consecutive datagrams with `wanted` */
	bool own_refused GUARDED_BY(&lock);	     /* the socket keeps its first options */
};

/* A way to one peer: udp_way.h. tx.lock guards all of it. */
struct udp_way {
	union ibv_gid to;
	struct udp_tx tx;	 /* socket connected to the peer's port 4791; fd -1: the way is closed */
	uint32_t times;		 /* datagrams to the peer while closed */
	uint32_t others;	 /* consecutive datagrams to other peers with the same row */
	uint32_t failures;	 /* attempts to open it, and refusals */
	_Atomic uint32_t missed; /* recent datagrams that found it in use. Relaxed, without the lock */
	uint16_t next;		 /* IPv4 identification of the next datagram */
	struct icrc_flow flow;	 /* from the port of its socket */
};

struct udp {
	struct link link;
	uint32_t scope; /* interface index of a link-local address, else 0 */
	bool is_ipv4;
	_Atomic bool no_segments;  /* the kernel or the device cannot UDP_SEGMENT; relaxed: a hint */
	_Atomic bool short_trains; /* the kernel takes TRAIN_BEFORE packets; relaxed: a hint */
	struct udp_counters counters;

	uint32_t tx_limit;	   /* bytes, as the kernel counts them, that may wait in a send buffer: half of it */
	_Atomic uint32_t tx_spare; /* bytes of tx_limit that are free at least: udp_capacity(). Relaxed, not exact */
	struct udp_tx tx;	   /* the link's own socket */
	struct udp_way way[UDP_WAYS];

	/* for receive(): one thread at a time */
	struct msghdr message;
	struct iovec iov;
	union udp_address from;
	struct udp_source source[UDP_SOURCES], *last; /* of the last datagram, from `last_from`; NULL: none yet */
	union udp_address last_from;
	bool sees_marks; /* the kernel reports congestion marks: watch_marks() */
	uint32_t looks;	 /* datagrams without a mark since `sees_marks` changed */
	int32_t calm;	 /* consecutive datagrams that are small or alike: watch_size() */
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int)) * 2];
	_Alignas(CACHE_LINE) uint8_t buffer[UDP_DATAGRAM_BYTES];
};

static inline uint32_t udp_hash(const union ibv_gid *gid, uint16_t port)
{
	uint32_t sum = (uint32_t)(gid->global.subnet_prefix >> 32 ^ gid->global.subnet_prefix ^
				  gid->global.interface_id >> 32 ^ gid->global.interface_id) ^
		       port;

	return sum * 0x9e3779b1u;
}

static inline void udp_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#endif
