/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers of a RoCEv2 packet in wire format (IBTA 9.2 to 9.4), and their order. Only wire/ includes this file: all
 * others use struct packet. */
#ifndef UROCE_HEADERS_H
#define UROCE_HEADERS_H

#include <assert.h>

#include "base/be.h"

struct bth {
	uint8_t opcode;
	uint8_t flags; /* BTH_SOLICITED, BTH_MIGRATED, pad count, transport version */
	be16 pkey;
	be32 qpn; /* BTH_FECN, BTH_BECN, six reserved bits, destination QP */
	be32 psn; /* BTH_ACK_REQUEST, seven reserved bits, PSN */
};
#define BTH_SOLICITED	0x80
#define BTH_MIGRATED	0x40
#define BTH_PAD_SHIFT	4 /* two bits */
#define BTH_VERSION	0x0f
#define BTH_FECN	(1u << 31)
#define BTH_BECN	(1u << 30)
#define BTH_ACK_REQUEST (1u << 31)
#define BTH_MASKED_BYTE 4 /* the byte with FECN and BECN, which switches may set: the ICRC takes it as ones */
static_assert(sizeof(struct bth) == 12, "IBTA 9.2");

struct rdeth {
	be32 ee_context;
};
static_assert(sizeof(struct rdeth) == 4, "IBTA 9.3.1");

struct deth {
	be32 qkey;
	be32 src_qpn; /* a reserved byte and 24 bits */
};
static_assert(sizeof(struct deth) == 8, "IBTA 9.3.2");

struct xrceth {
	be32 srqn; /* a reserved byte and 24 bits */
};
static_assert(sizeof(struct xrceth) == 4, "IBTA annex A14");

struct reth {
	be64 va;
	be32 rkey;
	be32 dma_length;
};
static_assert(sizeof(struct reth) == 16, "IBTA 9.3.3");

struct atomiceth {
	be64 va;
	be32 rkey;
	be64 swap_add;
	be64 compare;
};
static_assert(sizeof(struct atomiceth) == 28, "IBTA 9.3.4");

struct aeth {
	be32 syndrome_msn; /* 8 and 24 bits */
};
static_assert(sizeof(struct aeth) == 4, "IBTA 9.3.5");

struct atomicacketh {
	be64 original;
};
static_assert(sizeof(struct atomicacketh) == 8, "IBTA 9.3.5.3");

struct immdt {
	be32 imm;
};
static_assert(sizeof(struct immdt) == 4, "IBTA 9.3.6");

struct ieth {
	be32 rkey;
};
static_assert(sizeof(struct ieth) == 4, "IBTA 9.3.7");

/* The extended headers, X(flag, struct, argument), in the order in which they follow the BTH. */
#define EXTENDED_HEADERS(X, argument)               \
	X(HAS_RDETH, rdeth, argument)               \
	X(HAS_DETH, deth, argument)                 \
	X(HAS_XRCETH, xrceth, argument)             \
	X(HAS_RETH, reth, argument)                 \
	X(HAS_ATOMICETH, atomiceth, argument)       \
	X(HAS_AETH, aeth, argument)                 \
	X(HAS_ATOMICACKETH, atomicacketh, argument) \
	X(HAS_IMM, immdt, argument)                 \
	X(HAS_IETH, ieth, argument)

#endif
