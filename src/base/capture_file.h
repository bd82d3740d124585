/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring in shared memory in which a process leaves what it sends and receives for a collector (`uroce pcap`, `uroce
 * run --pcap`), which turns it into a file of packets. The process writes, the collector reads; neither waits for the
 * other. Numbers are in host byte order.
 *
 * The process connects to the collector's socket and sends a struct capture_hello with two descriptors: a memfd of a
 * fixed size, and an eventfd that wakes the collector. */
#ifndef UROCE_CAPTURE_FILE_H
#define UROCE_CAPTURE_FILE_H

#include <assert.h>
#include <stdint.h>

#define CAPTURE_MAGIC 0x3130504143454355ull /* "UCECAP01", read as a little-endian number */
#define CAPTURE_PAGE  4096		    /* bytes of the header; records follow */

struct capture_hello {
	uint64_t magic;
	uint32_t pid;
	uint32_t bytes; /* bytes of the memfd */
	char program[16];
};

struct capture_header {
	uint64_t magic;
	uint32_t bytes;			       /* bytes of the ring's records: a power of two */
	_Atomic uint32_t payload;	       /* bytes of a payload that the collector wants at most */
	_Alignas(64) _Atomic uint64_t written; /* bytes written so far: byte n is at n modulo `bytes` */
	_Atomic uint64_t dropped;	       /* packets for which there was no room */
	_Alignas(64) _Atomic uint64_t read;    /* bytes that the collector is done with */
	_Atomic uint32_t sleeps;	       /* the collector waits for the eventfd */
};
static_assert(sizeof(struct capture_header) <= CAPTURE_PAGE, "the header has a page");

enum capture_kind {
	CAPTURE_FILL, /* unused bytes up to the end of the ring */
	CAPTURE_EVENT,
	CAPTURE_PACKET,
	CAPTURE_ONESIDED,
};

enum capture_link { CAPTURE_UDP, CAPTURE_RING, CAPTURE_MEMORY };

/* Records begin at multiples of 16. */
struct capture_record {
	uint32_t bytes; /* bytes of the whole record, a multiple of 16 */
	uint8_t kind;	/* enum capture_kind */
	uint8_t link;	/* enum capture_link */
	uint8_t inbound;
	uint8_t zero;
	uint64_t time; /* ns since 1970 */
};

/* A trace point: base/trace.def. */
struct capture_event {
	struct capture_record record;
	uint64_t point;
	uint64_t arg[6];
};

struct capture_path {
	uint8_t from[16], to[16]; /* GIDs; IPv4 as ::ffff:a.b.c.d */
	uint8_t traffic_class, hop_limit;
	uint16_t zero;
	uint32_t flow_label;
	uint32_t qpn; /* QPN in this process */
	uint32_t mtu; /* bytes of payload in a packet of the path; 0: unknown */
};

/* A packet: its headers from the BTH on, then its payload as far as it was captured. */
struct capture_packet {
	struct capture_record record;
	struct capture_path path;
	uint32_t headers;  /* bytes of headers */
	uint32_t length;   /* bytes of payload that the packet has */
	uint32_t captured; /* bytes of payload that follow */
	uint32_t zero;
};

/* A one-sided operation, which the collector shows as the packets that it stands for. */
struct capture_onesided {
	struct capture_record record;
	struct capture_path path;
	uint32_t dest_qpn, psn, rkey, wqe;
	uint64_t address, compare_add, swap; /* as in the work request */
	uint32_t opcode;		     /* enum ibv_wr_opcode */
	uint32_t length, captured, zero;
};

#endif
