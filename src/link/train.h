/* SPDX-License-Identifier: BSD-2-Clause */
/* Trains: packets to one destination, all of one size but the last, which may be smaller. One system call sends a
 * train. Headers, small payloads, pads and ICRCs are laid out one after the other in memory of the calling thread, so
 * that a train of small packets is one piece; large payloads stay where they are and are pieces of their own. */
#ifndef UROCE_TRAIN_H
#define UROCE_TRAIN_H

#include "link/link.h"
#include "wire/icrc.h"

enum {
	TRAIN_PACKETS = 128, /* the kernel's own limit ... */
	TRAIN_BEFORE = 64,   /* ... and before Linux 6.9 */
	TRAIN_BYTES = 65000, /* of UDP payload: an IP packet is 65,535 bytes at most. 62 packets of path MTU 1024 fit */
	TRAIN_PIECES = 1024, /* UIO_MAXIOV */
	TRAIN_HEAD = 80,     /* room before the first packet, for headers of a link */
};
#define SKB_BYTES 1024 /* what the kernel counts for a packet, besides its bytes; it is about this much */

/* A train in the making; one per thread, made at its first send. */
struct train {
	/* the ICRC's start for these two addresses: a pure function of them, so it is never stale */
	union ibv_gid from, to;
	struct icrc_flow flow;

	const struct icrc_flow *start; /* that of the socket that is to send */
	uint16_t first;		       /* IPv4 identification of the first packet */
	uint32_t packets, bytes;
	uint32_t size; /* UDP payload of every packet but the last */
	uint32_t last; /* ... and of the last */
	/* icrc_before() of packets of `before_size` bytes in a flow with this CRC */
	uint32_t before, before_size, before_crc;
	uint32_t pieces;
	uint8_t *piece;			/* start of the piece that is still growing */
	uint8_t *at;			/* ... and its end */
	struct iovec iov[TRAIN_PIECES]; /* the first piece begins at `memory` */
	uint8_t head[TRAIN_HEAD];
	/* packet_encode() may write PACKET_HEADERS bytes of which not all are used */
	uint8_t memory[TRAIN_BYTES + PACKET_HEADERS];
};

/* That of the calling thread; NULL: there is no memory. */
struct train *train_of_thread(void);

/* Its ICRCs are those of packets from port 4791 of the one address to port 4791 of the other, with identifications from
 * 0 on. */
void train_between(struct train *t, const union ibv_gid *from, const union ibv_gid *to);

/* As many of the packets as one train takes, `limit` at most; at least one. `start` and `first` are set. False: it came
 * upon a payload that cannot be read. */
bool train_build(struct train *t, const struct link_tx *tx, uint32_t limit);

#endif
