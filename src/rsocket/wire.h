/* SPDX-License-Identifier: BSD-2-Clause */
/* What rsockets say to each other: the protocol of rdma-core's (its librdmacm/docs/rsocket).
 *
 * A stream is written by RDMA WRITE with immediate into the peer's ring, whose free halves the peer publishes by
 * writing a struct rs_sge into our list of targets. The immediate of every message says what it is. */
#ifndef UROCE_RSOCKET_WIRE_H
#define UROCE_RSOCKET_WIRE_H

#include "base/base.h"
#include "base/be.h"

#define RS_VERSION 1

/* A piece of memory that the peer may write to, in the byte order of the host that wrote it. */
struct rs_sge {
	uint64_t address;
	uint32_t key, length;
};
static_assert(sizeof(struct rs_sge) == 16, "as rdma-core has it");

struct rs_iomap {
	uint64_t offset;
	struct rs_sge at;
};
static_assert(sizeof(struct rs_iomap) == 24, "as rdma-core has it");

struct rs_sge_be {
	be64 address;
	be32 key, length;
};

enum {
	RS_FLAG_BIG_ENDIAN = 1, /* the sender of this is */
	RS_FLAG_IOMAP = 2,	/* iomap_scale means something */
};

/* The private data of REQ and REP. */
struct rs_connect {
	uint8_t version, flags;
	be16 credits; /* messages that may be sent to begin with */
	uint8_t reserved[3];
	uint8_t iomap_scale;	  /* of the number of iomaps, which follow the targets */
	struct rs_sge_be targets; /* where to publish buffers to; the length is a number of entries */
	struct rs_sge_be buffer;  /* the first one */
};
static_assert(sizeof(struct rs_connect) == 40, "as rdma-core has it");

/* What it says, in our byte order. */
struct rs_peer {
	struct rs_sge targets, buffer;
	uint32_t credits, iomaps; /* 0: it has no list of iomaps */
	bool big_endian;
};

/* 0, or -EPROTO: it is too short, of another version, or has no targets. */
int rs_read_connect(struct rs_peer *to, const void *data, size_t length);

/* The top three bits of the immediate; the rest are its value. */
enum rs_op {
	RS_OP_DATA = 0,	   /* so many bytes */
	RS_OP_CREDIT = 4,  /* the message up to which may be sent (16 bits); with 16 bytes of data: a buffer */
	RS_OP_IOMAP = 6,   /* which entry of the list of iomaps has been written */
	RS_OP_CONTROL = 7, /* enum rs_control */
};

enum rs_control {
	RS_DISCONNECT,
	RS_KEEPALIVE,
	RS_SHUTDOWN, /* no more data come, but may be sent */
	RS_RESET,    /* as RS_DISCONNECT, but not in good order. Rdma-core's do not know it: to them the connection just
			goes */
};

#define RS_VALUE_BITS 29
#define RS_VALUE_MAX  ((1u << RS_VALUE_BITS) - 1)

static inline uint32_t rs_message(enum rs_op op, uint32_t value)
{
	return (uint32_t)op << RS_VALUE_BITS | value;
}

/* A number in eight bits, with what precision they allow. */
static inline uint8_t rs_scale(uint32_t value)
{
	return (uint8_t)(value <= 128 ? value : 128 | value >> 8);
}

static inline uint32_t rs_unscale(uint8_t scale)
{
	return scale <= 128 ? scale : (uint32_t)(scale & 127) << 8;
}

/* ---- datagrams ---- */

#define RS_UDP_TAG 0x55555555u

/* In front of a datagram sent over UDP, as long as the peer's QP is not known; also the answer, that tells it. */
struct rs_udp_header {
	be32 tag;
	uint8_t version; /* 4, 6 */
	uint8_t op;	 /* RS_OP_DATA, RS_OP_CONTROL */
	uint8_t length;	 /* of this header */
	uint8_t reserved;
	be32 qpn;
	uint8_t address[16]; /* IPv4: the first four; the header ends there */
};
static_assert(sizeof(struct rs_udp_header) == 28, "as rdma-core has it");

/* In front of a datagram sent from QP to QP: whom it is from. */
struct rs_header {
	uint8_t version, length;
	be16 port;
	union {
		uint8_t v4[4];
		struct {
			be32 flowinfo;
			uint8_t address[16];
		} v6;
	};
};
static_assert(sizeof(struct rs_header) == 24, "as rdma-core has it");

/* Headers, and what is missing of one that may be shorter as zeros. False: there is none; h->length is not more than
 * `length` else. */
bool rs_read_udp_header(struct rs_udp_header *h, const void *data, size_t length);
bool rs_read_header(struct rs_header *h, const void *data, size_t length);

enum {
	RS_UDP_V4_BYTES = 16,
	RS_UDP_V6_BYTES = 28,
	RS_V4_BYTES = 8,
	RS_V6_BYTES = 24,
};

#endif
