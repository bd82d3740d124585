/* SPDX-License-Identifier: BSD-2-Clause */
/* A RoCEv2 packet as values: the contents of the bytes after the UDP header. Nothing above wire/ uses byte offsets. A
 * struct packet belongs to its caller. */
#ifndef UROCE_PACKET_H
#define UROCE_PACKET_H

#include "base/base.h"
#include "base/psn.h"

#define ROCE_PORT      4791 /* RoCEv2, IANA; IBTA annex A17 */
#define PACKET_HEADERS 64   /* header bytes of a packet at most, from the BTH on */
#define PACKET_TRAILER 8    /* pad (0..3) and ICRC (4), rounded up */
#define QPN_MASK       0xffffffu
#define PKEY_DEFAULT   0xffffu

/* IBTA 9.2: transports are the top three bits of the opcode, operations the low five. */
enum transport {
	TRANSPORT_RC = 0x00,
	TRANSPORT_UC = 0x20,
	TRANSPORT_RD = 0x40,
	TRANSPORT_UD = 0x60,
	TRANSPORT_CNP = 0x80,
	TRANSPORT_XRC = 0xa0,
	TRANSPORT_RAW = 0xe0, /* never in a packet: QPs for whole Ethernet frames */
};

enum operation {
	OP_SEND_FIRST = 0x00,
	OP_SEND_MIDDLE = 0x01,
	OP_SEND_LAST = 0x02,
	OP_SEND_LAST_IMM = 0x03,
	OP_SEND_ONLY = 0x04,
	OP_SEND_ONLY_IMM = 0x05,
	OP_WRITE_FIRST = 0x06,
	OP_WRITE_MIDDLE = 0x07,
	OP_WRITE_LAST = 0x08,
	OP_WRITE_LAST_IMM = 0x09,
	OP_WRITE_ONLY = 0x0a,
	OP_WRITE_ONLY_IMM = 0x0b,
	OP_READ_REQUEST = 0x0c,
	OP_READ_RESPONSE_FIRST = 0x0d,
	OP_READ_RESPONSE_MIDDLE = 0x0e,
	OP_READ_RESPONSE_LAST = 0x0f,
	OP_READ_RESPONSE_ONLY = 0x10,
	OP_ACKNOWLEDGE = 0x11,
	OP_ATOMIC_ACKNOWLEDGE = 0x12,
	OP_COMPARE_SWAP = 0x13,
	OP_FETCH_ADD = 0x14,
	OP_SEND_LAST_INV = 0x16,
	OP_SEND_ONLY_INV = 0x17,
	OP_ATOMIC_WRITE = 0x1d, /* IBTA 1.5, annex A19 */
};
#define OPERATION(opcode) ((opcode)&0x1f)
#define TRANSPORT(opcode) ((opcode)&0xe0)
#define OPCODE_CNP	  0x81 /* congestion notification packet, annex A17 */
/* Credits: flow control of UC and UD, see engine/flow.c. These opcodes are in the range for manufacturers (IBTA
 * 9.2.1). */
#define OPCODE_CREDIT_REQUEST 0xc0
#define OPCODE_CREDIT_GRANT   0xc1
/* Selective retransmission of requests between two uroce, see object/early.h. */
#define OPCODE_SELECTIVE_ACK 0xc2
/* Selective retransmission of responses, see engine/reassembly.h. */
#define OPCODE_ANSWER_AGAIN   0xc3
#define OPCODE_ANSWERED_AGAIN 0xc4

/* Properties of an opcode: one row per opcode in opcode_info[]. */
enum opcode_flag {
	/* headers that follow the BTH, in this order on the wire */
	HAS_RDETH = 1 << 0,
	HAS_DETH = 1 << 1,
	HAS_XRCETH = 1 << 2,
	HAS_RETH = 1 << 3,
	HAS_ATOMICETH = 1 << 4,
	HAS_AETH = 1 << 5,
	HAS_ATOMICACKETH = 1 << 6,
	HAS_IMM = 1 << 7,
	HAS_IETH = 1 << 8,
	HAS_PAYLOAD = 1 << 9,
	/* position in its message: an ONLY is both */
	IS_FIRST = 1 << 10,
	IS_LAST = 1 << 11,
	/* the state machine that it is for: responder or requester */
	IS_REQUEST = 1 << 12,
	IS_RESPONSE = 1 << 13,
	/* the operation that it requests or answers */
	IS_SEND = 1 << 14,
	IS_WRITE = 1 << 15,
	IS_READ = 1 << 16,
	IS_ATOMIC = 1 << 17,
	IS_ATOMIC_WRITE = 1 << 18, /* writes eight bytes atomically; the response is a READ response without payload */
};

struct opcode_info {
	const char *name;     /* NULL: no such opcode */
	uint32_t flags;	      /* enum opcode_flag */
	uint8_t header_bytes; /* BTH and extended headers */
};
extern const struct opcode_info opcode_info[256];

/* AETH syndromes (IBTA 9.7.5.2.8): the top three bits are the kind, the low five carry credits, a timer or a code. */
enum syndrome {
	SYNDROME_ACK = 0x00,
	SYNDROME_RNR = 0x20,
	SYNDROME_NAK = 0x60,
	SYNDROME_KIND = 0x60,
	SYNDROME_VALUE = 0x1f,
	SYNDROME_NO_CREDITS = 0x1f, /* in an ACK: no end-to-end flow control */

	NAK_SEQUENCE = SYNDROME_NAK | 0,
	NAK_INVALID_REQUEST = SYNDROME_NAK | 1,
	NAK_REMOTE_ACCESS = SYNDROME_NAK | 2,
	NAK_REMOTE_OPERATION = SYNDROME_NAK | 3,
	NAK_INVALID_RD_REQUEST = SYNDROME_NAK | 4,
	NAK_AGAIN = SYNDROME_NAK | 31, /* between local peers only; reserved on the wire: engine/patience.c */
};

/* A piece of the payload in the memory of the sender. */
struct packet_piece {
	uint64_t address;
	uint32_t length, rkey;
};

struct packet {
	uint8_t opcode;
	bool solicited, migrated, ack_request;
	bool fecn, becn; /* congestion marks in the BTH, annex A17 */
	/* Set by the link of a received packet, not by the parser. */
	bool congestion;       /* the IP header's ECN field says CE */
	bool is_uroce;	       /* the UDP source port is one that only uroce uses */
	uint8_t traffic_class; /* traffic class of the IP header with ECN; 0: unknown */
	uint32_t mtu;	       /* bytes that the link carries in a packet, if not the path MTU; else 0 */
	const uint8_t *to;     /* the destination address, 16 bytes */
	/* Between local peers: the message is done for its sender, and takes no PSN. Its bytes are where the receive at
	 * `position` says, or, if there is a payload, belong there. */
	bool delivered;
	bool brief; /* from a ring: record_get_rest() fills in what the fast path does not use */
	uint32_t position;
	uint16_t pkey;
	uint32_t dest_qpn;
	psn_t psn;

	/* extended headers: meaningful as opcode_info[opcode].flags says */
	uint32_t imm;		/* HAS_IMM: as in the packet (network byte order, like ibv_wc.imm_data) */
	uint32_t inv_rkey;	/* HAS_IETH */
	uint64_t va;		/* HAS_RETH, HAS_ATOMICETH */
	uint32_t rkey;		/* HAS_RETH, HAS_ATOMICETH */
	uint32_t dma_length;	/* HAS_RETH: bytes */
	uint64_t swap_add;	/* HAS_ATOMICETH */
	uint64_t compare;	/* HAS_ATOMICETH */
	uint8_t syndrome;	/* HAS_AETH */
	uint32_t msn;		/* HAS_AETH */
	uint64_t original;	/* HAS_ATOMICACKETH */
	uint32_t qkey, src_qpn; /* HAS_DETH */
	uint32_t srqn;		/* HAS_XRCETH */

	uint32_t length; /* payload bytes, without pad */
	uint32_t pieces; /* between processes of one host: number of struct packet_piece in place of the payload; else 0
			  */
	const uint8_t *payload;	   /* received: payload, inside the receive buffer; to be sent: NULL */
	struct packet_piece piece; /* the payload if it is in one piece: `payload` points here then */
};

/* Payload bytes in the packet itself. */
static inline uint32_t packet_carries(const struct packet *p)
{
	return p->pieces ? p->pieces * (uint32_t)sizeof(struct packet_piece) : p->length;
}

/* Parses a packet. `bytes` runs from the BTH to before the ICRC. Returns 0, or -EBADMSG if the opcode table does not
 * describe it: unknown opcode, too short, transport version not 0, more pad than payload, payload and pad not a
 * multiple of 4 bytes, payload where the opcode has none. Ignores reserved bits. */
int packet_parse(struct packet *p, const uint8_t *bytes, size_t length);

/* Parses a packet that may differ from *p, which was parsed from as many bytes at `last`, in the PSN and the request
 * for an ACK alone: updates these and the payload. False: it differs otherwise, or may do; *p is as before. */
bool packet_parse_next(struct packet *p, const uint8_t *last, const uint8_t *bytes);

/* Writes the headers, from the BTH on; returns their length in bytes (<= PACKET_HEADERS). The caller appends payload,
 * packet_pad(p->length) zero bytes, and the ICRC. */
size_t packet_encode(const struct packet *p, uint8_t out[PACKET_HEADERS]);

/* packet_encode() of a packet that differs from the one with the headers `like` in the PSN, the request for an ACK and
 * the solicited event alone, and has no header behind the BTH. */
size_t packet_encode_like(const struct packet *p, const uint8_t *like, uint8_t *out);

static inline uint32_t packet_pad(uint32_t payload)
{
	return -payload & 3;
}

/* UDP payload bytes of the packet, ICRC included. */
static inline uint32_t packet_bytes(const struct packet *p)
{
	return opcode_info[p->opcode].header_bytes + p->length + packet_pad(p->length) + 4;
}

#endif
