/* SPDX-License-Identifier: BSD-2-Clause */
/* A link moves packets: one for each local address (udp), and one for each local peer (its rings: port/local_peer.c).
 * loop/ owns links and is the only caller. Links know nothing of QPs. */
#ifndef UROCE_LINK_H
#define UROCE_LINK_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/packet.h"

struct link;

/* A packet to send. Payload pieces add up to packet->length. */
struct link_tx {
	const struct packet *packet;
	const struct iovec *iov;
	uint32_t iovs;
	const union ibv_gid *dgid; /* where to */
	const union ibv_gid *sgid; /* where from, for links that do not know: the local peer's ring. NULL: they do */
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;
	bool bad_icrc;	    /* not of a ring: it is to arrive with a wrong ICRC. Sent alone */
	bool foreign;	    /* the payload is the application's memory, which may be gone */
	const void *placed; /* the payload, in room(), where it is in a train of the packets; NULL: it is in pieces.
			       Placed packets are first, and differ in payload, PSN, ack_request and solicited alone; at
			       most one more, to the same QP, follows */
};

/* In what send() returns, besides a number. */
#define LINK_UNREADABLE (1u << 31)

/* A packet that has arrived from the address `from`; p->to says at which of ours. From a local peer's ring, NULL unless
 * it is a datagram; what is left out of *p (packet.brief) is for the receiver to fill in. True if the receiver takes
 * more packets now. */
typedef bool link_deliver(void *arg, struct packet *p, const union ibv_gid *from);

struct link_ops {
	const char *name;
	/* Sends packets in order; returns how many it is done with: all, whether sent or refused by the network (which
	 * is a loss like any other), unless a buffer is full: the rest is lost as well. With LINK_UNREADABLE: one of
	 * those that come next has a payload that cannot be read: the first of them, if they are sent one by one.
	 * Several threads may call at once. */
	uint32_t (*send)(struct link *link, const struct link_tx *tx, uint32_t count);
	/* Bytes, with BATCH_OVERHEAD for each packet, that the send buffer has room for. Who sends no more than that
	 * finds it full only if others send at the same moment. NULL: there is no limit. */
	uint32_t (*capacity)(struct link *link);
	/* Where the calling thread may put the headers and payloads of *most small packets (FAST_UDP_MOST in engine/),
	 * as they are on the wire, until it sends. NULL: it cannot. */
	void *(*room)(struct link *link, uint32_t *most);
	/* Calls deliver() for each packet that has arrived and passed its ICRC, until `batch` of them or more have been
	 * seen, or (a ring) deliver() wants no more; the packet's payload lives until deliver() returns. Returns the
	 * number of packets seen (good or bad). One thread at a time. */
	uint32_t (*receive)(struct link *link, uint32_t batch, link_deliver *deliver, void *arg);
	/* Logs what it has counted. */
	void (*tell)(const struct link *link);
	void (*close)(struct link *link);
	/* In a child, after fork(): closes its descriptors, and nothing else. */
	void (*abandon)(struct link *link);
};

struct link {
	const struct link_ops *ops;
	union ibv_gid gid; /* the local address */
	int fd;		   /* readable when receive() has something; -1 if there is no such thing */
	int socket;	   /* its UDP socket, one of a SO_REUSEPORT group: host/steering.h; else not used */
	bool look;	   /* the next receive() looks at all places, also those that it looks at now and then only */
	uint32_t room;	   /* bytes, as the kernel counts them, that may wait to be received: 0 if there is no limit */
};

#endif
