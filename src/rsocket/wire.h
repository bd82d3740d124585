/* SPDX-License-Identifier: BSD-2-Clause */
/* The wire format of rsockets: the protocol of rdma-core's (its librdmacm/docs/rsocket).
 *
 * A stream is written by RDMA WRITE with immediate into the peer's ring, whose free halves the peer publishes by
 * writing a struct rs_sge into our list of targets. The immediate of every message says what it is. */
#ifndef UROCE_RSOCKET_WIRE_H
#define UROCE_RSOCKET_WIRE_H

#include <byteswap.h>

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

/* In the other byte order. */
static inline struct rs_sge rs_sge_swap(struct rs_sge s)
{
	return (struct rs_sge){bswap_64(s.address), bswap_32(s.key), bswap_32(s.length)};
}

static inline struct rs_iomap rs_iomap_swap(struct rs_iomap m)
{
	return (struct rs_iomap){bswap_64(m.offset), rs_sge_swap(m.at)};
}

struct rs_sge_be {
	be64 address;
	be32 key, length;
};

enum {
	RS_FLAG_BIG_ENDIAN = 1, /* the sender's byte order */
	RS_FLAG_IOMAP = 2,	/* iomap_scale is valid */
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

/* The same in this host's byte order. */
struct rs_peer {
	struct rs_sge targets, buffer;
	uint32_t credits, iomaps; /* 0: it has no list of iomaps */
	bool big_endian;
};

/* 0, or -EPROTO: it is too short, of another version, or has no targets. */
int rs_read_connect(struct rs_peer *to, const void *data, size_t length);

/* The top three bits of the immediate; the rest are its value. */
enum rs_op {
	RS_OP_DATA = 0,	   /* value: bytes */
	RS_OP_CREDIT = 4,  /* value: the message number up to which may be sent, 16 bits; 16 bytes of data: a buffer */
	RS_OP_IOMAP = 6,   /* value: the entry of the list of iomaps that was written */
	RS_OP_CONTROL = 7, /* enum rs_control */
};

enum rs_control {
	RS_DISCONNECT,
	RS_KEEPALIVE,
	RS_SHUTDOWN, /* no more data come, but may be sent */
	RS_RESET,    /* RS_DISCONNECT, but not in good order. rdma-core ignores it; the DREQ ends the connection */
};

#define RS_VALUE_BITS 29
#define RS_VALUE_MAX  ((1u << RS_VALUE_BITS) - 1)

static inline uint32_t rs_message(enum rs_op op, uint32_t value)
{
	return (uint32_t)op << RS_VALUE_BITS | value;
}

/* A number in eight bits: exact up to 128, then a multiple of 256. */
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

/* Header of a datagram sent over UDP, while the peer's QP is not known, and of the answer, which tells that QP. */
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

/* Header of a datagram sent from QP to QP: its sender. */
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

/* Parse a header; bytes that a shorter one lacks become 0. False: not valid. h->length is `length` at most. */
bool rs_read_udp_header(struct rs_udp_header *h, const void *data, size_t length);
bool rs_read_header(struct rs_header *h, const void *data, size_t length);

enum {
	RS_UDP_V4_BYTES = 16,
	RS_UDP_V6_BYTES = 28,
	RS_V4_BYTES = 8,
	RS_V6_BYTES = 24,
};

#endif
