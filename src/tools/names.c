/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/names.h"

#include <infiniband/verbs.h>
#include <strings.h>

#include "wire/packet.h"

#define NAME_OF(table, n) ((n) < ARRAY_SIZE(table) && (table)[n] ? (table)[n] : "?")

static const char *const operations[] = {
	[IBV_WR_RDMA_WRITE] = "WRITE",
	[IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_IMM",
	[IBV_WR_SEND] = "SEND",
	[IBV_WR_SEND_WITH_IMM] = "SEND_IMM",
	[IBV_WR_RDMA_READ] = "READ",
	[IBV_WR_ATOMIC_CMP_AND_SWP] = "COMPARE_SWAP",
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_ADD",
	[IBV_WR_LOCAL_INV] = "LOCAL_INVALIDATE",
	[IBV_WR_BIND_MW] = "BIND_WINDOW",
	[IBV_WR_SEND_WITH_INV] = "SEND_INVALIDATE",
	[IBV_WR_ATOMIC_WRITE] = "ATOMIC_WRITE",
};

const char *operation_name(uint64_t wr_opcode)
{
	return NAME_OF(operations, wr_opcode);
}

const char *operation_next(unsigned *wr_opcode)
{
	while (*wr_opcode < ARRAY_SIZE(operations)) {
		const char *name = operations[(*wr_opcode)++];

		if (name)
			return name;
	}
	return NULL;
}

int operation_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		if (operations[i] && !strcasecmp(operations[i], name))
			return (int)i;
	return -1;
}

const char *packet_name(uint64_t opcode)
{
	const char *name = opcode_info[opcode & 0xff].name;

	return name ? name : "?";
}

const char *status_name(uint64_t wc_status)
{
	static const char *const name[] = {
		[IBV_WC_SUCCESS] = "IBV_WC_SUCCESS",
		[IBV_WC_LOC_LEN_ERR] = "IBV_WC_LOC_LEN_ERR",
		[IBV_WC_LOC_QP_OP_ERR] = "IBV_WC_LOC_QP_OP_ERR",
		[IBV_WC_LOC_EEC_OP_ERR] = "IBV_WC_LOC_EEC_OP_ERR",
		[IBV_WC_LOC_PROT_ERR] = "IBV_WC_LOC_PROT_ERR",
		[IBV_WC_WR_FLUSH_ERR] = "IBV_WC_WR_FLUSH_ERR",
		[IBV_WC_MW_BIND_ERR] = "IBV_WC_MW_BIND_ERR",
		[IBV_WC_BAD_RESP_ERR] = "IBV_WC_BAD_RESP_ERR",
		[IBV_WC_LOC_ACCESS_ERR] = "IBV_WC_LOC_ACCESS_ERR",
		[IBV_WC_REM_INV_REQ_ERR] = "IBV_WC_REM_INV_REQ_ERR",
		[IBV_WC_REM_ACCESS_ERR] = "IBV_WC_REM_ACCESS_ERR",
		[IBV_WC_REM_OP_ERR] = "IBV_WC_REM_OP_ERR",
		[IBV_WC_RETRY_EXC_ERR] = "IBV_WC_RETRY_EXC_ERR",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "IBV_WC_RNR_RETRY_EXC_ERR",
		[IBV_WC_LOC_RDD_VIOL_ERR] = "IBV_WC_LOC_RDD_VIOL_ERR",
		[IBV_WC_REM_INV_RD_REQ_ERR] = "IBV_WC_REM_INV_RD_REQ_ERR",
		[IBV_WC_REM_ABORT_ERR] = "IBV_WC_REM_ABORT_ERR",
		[IBV_WC_FATAL_ERR] = "IBV_WC_FATAL_ERR",
		[IBV_WC_RESP_TIMEOUT_ERR] = "IBV_WC_RESP_TIMEOUT_ERR",
		[IBV_WC_GENERAL_ERR] = "IBV_WC_GENERAL_ERR",
	};

	return NAME_OF(name, wc_status);
}

const char *syndrome_name(uint64_t syndrome)
{
	static const char *const nak[] = {"NAK (PSN sequence error)", "NAK (invalid request)",
					  "NAK (remote access error)", "NAK (remote operational error)",
					  "NAK (invalid RD request)"};

	switch (syndrome & SYNDROME_KIND) {
	case SYNDROME_ACK:
		return "ACK";
	case SYNDROME_RNR:
		return "RNR NAK (receiver not ready)";
	default:
		return NAME_OF(nak, syndrome & SYNDROME_VALUE);
	}
}

const char *retry_name(uint64_t reason)
{
	static const char *const name[] = {"NAK",
					   "responses missing",
					   "time-out",
					   "probe of the tail",
					   "receiver not ready",
					   "lost: later packets arrived",
					   "another path"};

	return NAME_OF(name, reason);
}

const char *drop_name(uint64_t reason)
{
	static const char *const name[] = {"accepted",
					   "duplicate",
					   "packets before it are missing",
					   "the NAK is already sent",
					   "no receive posted",
					   "invalid request",
					   "too long",
					   "access denied",
					   "the receive's memory cannot be written",
					   "invalidates no window of the QP",
					   "dropped by a fault rule",
					   "its payload, in the sender's memory, is out of reach and asked for"};

	return NAME_OF(name, reason);
}

const char *qp_type_name(uint64_t type)
{
	static const char *const name[] = {
		[IBV_QPT_RC] = "RC",	      [IBV_QPT_UC] = "UC",	   [IBV_QPT_UD] = "UD",
		[IBV_QPT_RAW_PACKET] = "RAW", [IBV_QPT_XRC_SEND] = "XRCI", [IBV_QPT_XRC_RECV] = "XRCT",
	};

	return NAME_OF(name, type);
}

const char *qp_state_name(uint64_t state)
{
	static const char *const name[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return NAME_OF(name, state);
}

/* Copies of names in layers that tools must not include; tests/tools/test_names.c compares them. */
const char *lane_name(uint64_t lane)
{
	static const char *const name[] = {"queue", "udp", "ring", "memory", "datagram"};

	return NAME_OF(name, lane);
}

bool lane_is_shared(uint64_t lane)
{
	return lane == 2 || lane == 3; /* ring, memory */
}

const char *id_state_name(uint64_t state)
{
	static const char *const name[] = {"IDLE",	     "BOUND",	   "LISTENING", "RESOLVING", "ADDRESS_RESOLVED",
					   "ROUTE_RESOLVED", "CONNECTING", "LOST"};

	return NAME_OF(name, state);
}

const char *connection_state_name(uint64_t state)
{
	static const char *const name[] = {"FREE",	    "IDLE",	     "REQ_SENT",	  "REQ_HELD",
					   "REQ_RECEIVED",  "REP_SENT",	     "REP_RECEIVED",	  "ESTABLISHED",
					   "DREQ_SENT",	    "DREQ_RECEIVED", "REJ_SENT",	  "TIMEWAIT",
					   "SIDR_REQ_SENT", "SIDR_REQ_HELD", "SIDR_REQ_RECEIVED", "SIDR_REP_SENT"};

	return NAME_OF(name, state);
}

const char *port_space_name(uint64_t port_space)
{
	return port_space == 0x0106   ? "TCP"
	       : port_space == 0x0111 ? "UDP"
	       : port_space == 0x013f ? "IB"
	       : port_space == 0x0002 ? "IPOIB"
				      : "?";
}
