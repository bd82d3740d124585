/* SPDX-License-Identifier: BSD-2-Clause */
/* The udp link: RoCEv2 packets through one UDP socket, bound to a local address and port 4791, and to peers that much
 * is sent to, through one of their own. Consecutive packets to one destination travel as a train: one system call, one
 * trip through the network stack (UDP_SEGMENT, UDP_GRO). */
#ifndef UROCE_UDP_H
#define UROCE_UDP_H

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

/* A socket of any port, from which datagrams to port 4791 leave whose ICRC has been made with identification 0. Its
 * descriptor, or -errno. */
int link_udp_sender(int family);

const struct udp_counters *link_udp_counters(const struct link *link);

/* Counts one packet as received with a wrong ICRC. */
void link_udp_count_icrc(struct link *link);

/* For tests: send as a kernel without UDP_SEGMENT would have it. */
void link_udp_refuse_segments(struct link *link);
/* ... and as one before 6.9 would. */
void link_udp_refuse_long_trains(struct link *link);

/* What follows is between the files of the udp link and those of the packet link, which has a udp link inside. */

union udp_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Where packets come from: what their ICRCs have in common, and what the next IPv4 identification will be. */
struct udp_source {
	union ibv_gid gid;
	uint16_t port; /* 0: unused */
	bool is_uroce; /* by its port */
	/* its datagrams start from identification 0, as those of unconnected sockets do, or each from one more than the
	 * one before (connected sockets); else from one more than the last packet before */
	bool zero, steps;
	bool known;	      /* that of its last datagram was what it was thought to be */
	uint8_t misses;	      /* how often lately it was not */
	uint16_t start, next; /* of the last datagram; after its last packet */
	uint16_t segment[2];  /* bytes of each packet but the last, in the last small datagram and in the last large one
			       */
	struct icrc_flow flow;
};

/* Source ports of uroce's own, besides ROCE_PORT: udp_way.c. Other adapters and the kernel's rxe send from 0xc000 or
 * above. */
#define UDP_WAY_PORT  0xb800u
#define UDP_WAY_PORTS 0x400u

/* How a datagram is sent. */
struct udp_options {
	uint16_t segment; /* bytes of each packet of a train but the last; 0: one packet */
	uint8_t hops;	  /* 0: UDP_HOP_DEFAULT */
	uint8_t traffic_class;
};

/* A socket, and how what it sends is sent: see udp_options.c. */
struct udp_tx {
	int fd;
	struct lock lock;
	struct udp_options own GUARDED_BY(&lock);    /* the socket's settings */
	struct udp_options wanted GUARDED_BY(&lock); /* what the last datagram needed ... */
	uint32_t times GUARDED_BY(&lock);	     /* ... and how many in a row */
	bool own_refused GUARDED_BY(&lock);
};

/* A way to one peer: see udp_way.c. tx ring.lock guards all of it. */
struct udp_way {
	union ibv_gid to;
	struct udp_tx tx; /* its socket: connected to the peer's port 4791; -1: there is none */
	uint32_t times;	  /* datagrams to the peer, while there is none ... */
	uint32_t others;  /* ... to others in a row, who have no way while this is here */
	uint32_t failures;
	_Atomic uint32_t
		missed;	       /* how often lately somebody found it in use. Relaxed: a count, and not under the lock */
	uint16_t next;	       /* IPv4 identification of the next datagram */
	struct icrc_flow flow; /* with its port */
};

struct udp {
	struct link link;
	uint32_t scope; /* interface index of a link-local address, else 0 */
	bool is_ipv4;
	_Atomic bool no_segments;  /* the kernel or the device cannot UDP_SEGMENT; relaxed: a hint */
	_Atomic bool short_trains; /* the kernel takes TRAIN_BEFORE packets; relaxed: a hint */
	struct udp_counters counters;

	uint32_t tx_limit;	   /* bytes, as the kernel counts them, that may wait in a send buffer: half of it */
	_Atomic uint32_t tx_spare; /* of these, what is surely free: see udp_capacity(). Relaxed, and no exact count */
	struct udp_tx tx;	   /* the link's own socket */
	struct udp_way way[UDP_WAYS];

	/* for receive(): one thread at a time */
	struct msghdr message;
	struct iovec iov;
	union udp_address from;
	struct udp_source source[UDP_SOURCES];
	bool sees_marks; /* the kernel tells of congestion marks ... */
	uint32_t looks;	 /* ... since, or not since, so many datagrams: see watch_marks() */
	int32_t calm;	 /* how long datagrams have been small or alike: see watch_size() */
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int)) * 2];
	_Alignas(CACHE_LINE) uint8_t buffer[UDP_DATAGRAM_BYTES];
};

/* A datagram that came in a frame: its UDP payload stands in udp->buffer, where it is from in udp->from. */
struct udp_datagram {
	uint32_t bytes;
	uint16_t identification; /* of its first packet */
	uint8_t traffic_class;
};
/* Returns the number of packets in it. */
uint32_t udp_take(struct udp *udp, const struct udp_datagram *d, link_deliver *deliver, void *arg);

uint32_t udp_send(struct link *link, const struct link_tx *tx, uint32_t count);
void *udp_room(struct link *link);
uint32_t udp_capacity(struct link *link);
/* The same, asked anew; `queued`: what waits in another socket of the link. */
uint32_t udp_capacity_of(struct udp *udp, uint32_t queued);
void udp_spend(struct udp *udp, uint32_t bytes);
/* What waits in the send buffer of that socket, in bytes as the kernel counts them. */
uint32_t udp_queued(int fd);
uint32_t udp_receive(struct link *link, uint32_t batch, link_deliver *deliver, void *arg);

/* One datagram of so many bytes, by its address and pieces; the rest of *m is set here. 0 or -errno. By the link's own
 * socket, and by another tx ring. */
int udp_transmit(struct udp *udp, struct msghdr *m, struct udp_options want, uint32_t bytes);
int udp_transmit_by(const struct udp *udp, struct udp_tx *tx, struct msghdr *m, struct udp_options want, uint32_t bytes)
	REQUIRES(tx->lock);

/* The way to that address, and its lock; NULL: the link's own socket sends. */
struct udp_way *udp_way_enter(struct udp *udp, const union ibv_gid *to);
/* What waits in the fullest send buffer of a way, in bytes as the kernel counts them. */
uint32_t udp_way_queued(struct udp *udp);
/* One datagram was sent, or none: -errno. */
void udp_way_leave(struct udp_way *way, int err);
void udp_way_init(struct udp *udp);
void udp_way_close(struct udp *udp);

/* The address with this port. */
socklen_t udp_address_of(const struct udp *udp, const union ibv_gid *gid, uint16_t port, union udp_address *a);
/* Opens the socket: of multicast, `group` is the interface; else 0. The memory stays the caller's. 0 or -errno. */
int udp_start(struct udp *udp, const union ibv_gid *gid, int group);
void udp_stop(struct udp *udp);
void udp_tell(const struct link *link);
/* As large a buffer as may be had: SO_RCVBUF or SO_SNDBUF, or what forces it. */
void udp_set_buffer(int fd, int force, int plain);
uint32_t udp_buffer_of(int fd, int which);
/* What a socket of ours needs to send. 0 or -errno. */
int udp_set_sending(const struct udp *udp, int fd);

/* UDP_SEGMENT is unknown (before Linux 4.18), or the device cannot do it. EINVAL and EMSGSIZE also come of packets
 * longer than the MTU: sending them one by one tells. */
bool udp_may_lack_segments(int err);

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
