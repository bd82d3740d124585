/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of opcodes (IBTA 9.2, table 38; annex A14 for XRC, A17 for the CNP). Operations are described once and
 * reused by every transport that has them; header sizes follow from the flags. Constant. */
#include "wire/headers.h"
#include "wire/packet.h"

#define BYTES_IF(flag, header, flags) +((flags) & (flag) ? sizeof(struct header) : 0)
#define HEADER_BYTES(flags)	      (sizeof(struct bth) EXTENDED_HEADERS(BYTES_IF, flags))

#define ROW(prefix, transport, operation, what)     \
	[(transport) | OP_##operation] = {          \
		.name = prefix #operation,          \
		.flags = (what),                    \
		.header_bytes = HEADER_BYTES(what), \
	},

#define FIRST  (HAS_PAYLOAD | IS_FIRST)
#define MIDDLE HAS_PAYLOAD
#define LAST   (HAS_PAYLOAD | IS_LAST)
#define ONLY   (HAS_PAYLOAD | IS_FIRST | IS_LAST)
#define BARE   (IS_FIRST | IS_LAST) /* a message of one packet, without payload */
#define ANSWER (IS_RESPONSE | IS_READ)

/* Rows of SENDs. `more`: flags that the transport adds to each request. */
#define SEND_ONLYS(prefix, transport, more)                                     \
	ROW(prefix, transport, SEND_ONLY, ONLY | IS_REQUEST | IS_SEND | (more)) \
	ROW(prefix, transport, SEND_ONLY_IMM, ONLY | IS_REQUEST | IS_SEND | HAS_IMM | (more))

#define SENDS(prefix, transport, more)                                              \
	SEND_ONLYS(prefix, transport, more)                                         \
	ROW(prefix, transport, SEND_FIRST, FIRST | IS_REQUEST | IS_SEND | (more))   \
	ROW(prefix, transport, SEND_MIDDLE, MIDDLE | IS_REQUEST | IS_SEND | (more)) \
	ROW(prefix, transport, SEND_LAST, LAST | IS_REQUEST | IS_SEND | (more))     \
	ROW(prefix, transport, SEND_LAST_IMM, LAST | IS_REQUEST | IS_SEND | HAS_IMM | (more))

#define WRITES(prefix, transport, more)                                                         \
	ROW(prefix, transport, WRITE_FIRST, FIRST | IS_REQUEST | IS_WRITE | HAS_RETH | (more))  \
	ROW(prefix, transport, WRITE_MIDDLE, MIDDLE | IS_REQUEST | IS_WRITE | (more))           \
	ROW(prefix, transport, WRITE_LAST, LAST | IS_REQUEST | IS_WRITE | (more))               \
	ROW(prefix, transport, WRITE_LAST_IMM, LAST | IS_REQUEST | IS_WRITE | HAS_IMM | (more)) \
	ROW(prefix, transport, WRITE_ONLY, ONLY | IS_REQUEST | IS_WRITE | HAS_RETH | (more))    \
	ROW(prefix, transport, WRITE_ONLY_IMM, ONLY | IS_REQUEST | IS_WRITE | HAS_RETH | HAS_IMM | (more))

/* Rows of operations of reliable transports. */
#define RELIABLES(prefix, transport, more)                                                            \
	ROW(prefix, transport, SEND_LAST_INV, LAST | IS_REQUEST | IS_SEND | HAS_IETH | (more))        \
	ROW(prefix, transport, SEND_ONLY_INV, ONLY | IS_REQUEST | IS_SEND | HAS_IETH | (more))        \
	ROW(prefix, transport, READ_REQUEST, BARE | IS_REQUEST | IS_READ | HAS_RETH | (more))         \
	ROW(prefix, transport, COMPARE_SWAP, BARE | IS_REQUEST | IS_ATOMIC | HAS_ATOMICETH | (more))  \
	ROW(prefix, transport, FETCH_ADD, BARE | IS_REQUEST | IS_ATOMIC | HAS_ATOMICETH | (more))     \
	ROW(prefix, transport, ATOMIC_WRITE, ONLY | IS_REQUEST | IS_ATOMIC_WRITE | HAS_RETH | (more)) \
	ROW(prefix, transport, READ_RESPONSE_FIRST, FIRST | ANSWER | HAS_AETH)                        \
	ROW(prefix, transport, READ_RESPONSE_MIDDLE, MIDDLE | ANSWER)                                 \
	ROW(prefix, transport, READ_RESPONSE_LAST, LAST | ANSWER | HAS_AETH)                          \
	ROW(prefix, transport, READ_RESPONSE_ONLY, ONLY | ANSWER | HAS_AETH)                          \
	ROW(prefix, transport, ACKNOWLEDGE, BARE | IS_RESPONSE | HAS_AETH)                            \
	ROW(prefix, transport, ATOMIC_ACKNOWLEDGE, BARE | IS_RESPONSE | IS_ATOMIC | HAS_AETH | HAS_ATOMICACKETH)

#define CONNECTED(prefix, transport, more) SENDS(prefix, transport, more) WRITES(prefix, transport, more)

/* clang-format off */
const struct opcode_info opcode_info[256] = {
	CONNECTED("RC_", TRANSPORT_RC, 0)
	RELIABLES("RC_", TRANSPORT_RC, 0)
	CONNECTED("UC_", TRANSPORT_UC, 0)
	SEND_ONLYS("UD_", TRANSPORT_UD, HAS_DETH)
	CONNECTED("XRC_", TRANSPORT_XRC, HAS_XRCETH)
	RELIABLES("XRC_", TRANSPORT_XRC, HAS_XRCETH)
	/* Packets to a QP, but to neither its requester nor its responder. 16 reserved bytes follow a CNP. */
	[OPCODE_CNP] = {.name = "CNP", .flags = ONLY, .header_bytes = HEADER_BYTES(0)},
	[OPCODE_CREDIT_REQUEST] = {.name = "CREDIT_REQUEST", .flags = BARE | HAS_DETH | IS_REQUEST, .header_bytes = HEADER_BYTES(HAS_DETH)},
	[OPCODE_CREDIT_GRANT] = {.name = "CREDIT_GRANT", .flags = BARE | HAS_DETH | HAS_IMM,
			   .header_bytes = HEADER_BYTES(HAS_DETH | HAS_IMM)},
	[OPCODE_SELECTIVE_ACK] = {.name = "SELECTIVE_ACK", .flags = ONLY, .header_bytes = HEADER_BYTES(0)},
	[OPCODE_ANSWER_AGAIN] = {.name = "ANSWER_AGAIN", .flags = BARE | HAS_RETH, .header_bytes = HEADER_BYTES(HAS_RETH)},
	[OPCODE_ANSWERED_AGAIN] = {.name = "ANSWERED_AGAIN", .flags = ONLY, .header_bytes = HEADER_BYTES(0)},
};
/* clang-format on */
