/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wqe.h"

const uint8_t opcode_when_complete[] = {
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
	[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
	[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
};

#define KINDS (IBV_WR_ATOMIC_WRITE + 1)

static const uint8_t rc_kind[KINDS] = {
	[IBV_WR_SEND] = WR_SEND,
	[IBV_WR_SEND_WITH_IMM] = WR_SEND,
	[IBV_WR_SEND_WITH_INV] = WR_SEND,
	[IBV_WR_RDMA_WRITE] = WR_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = WR_WRITE,
	[IBV_WR_RDMA_READ] = WR_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = WR_ATOMIC,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = WR_ATOMIC,
	[IBV_WR_ATOMIC_WRITE] = WR_ATOMIC_WRITE,
	[IBV_WR_BIND_MW] = WR_BIND,
	[IBV_WR_LOCAL_INV] = WR_INVALIDATE,
};

static const uint8_t uc_kind[KINDS] = {
	[IBV_WR_SEND] = WR_SEND,	[IBV_WR_SEND_WITH_IMM] = WR_SEND,
	[IBV_WR_RDMA_WRITE] = WR_WRITE, [IBV_WR_RDMA_WRITE_WITH_IMM] = WR_WRITE,
	[IBV_WR_BIND_MW] = WR_BIND,	[IBV_WR_LOCAL_INV] = WR_INVALIDATE,
};

static const uint8_t ud_kind[KINDS] = {
	[IBV_WR_SEND] = WR_DATAGRAM,
	[IBV_WR_SEND_WITH_IMM] = WR_DATAGRAM,
};

static const uint8_t raw_kind[KINDS] = {
	[IBV_WR_SEND] = WR_SEND,
};

enum wr_kind wqe_kind(const struct qp *qp, enum ibv_wr_opcode opcode)
{
	const uint8_t *kind = qp->transport == TRANSPORT_UC    ? uc_kind
			      : qp->transport == TRANSPORT_UD  ? ud_kind
			      : qp->transport == TRANSPORT_RAW ? raw_kind
							       : rc_kind;

	return (unsigned)opcode < KINDS ? kind[opcode] : WR_NONE;
}

bool post_has_opcode(const struct qp *qp, enum ibv_wr_opcode opcode)
{
	return wqe_kind(qp, opcode) != WR_NONE;
}

uint32_t wqe_packets(const struct qp *qp, const struct wqe *w)
{
	uint32_t mtu = qp->req.mtu;

	if (wqe_is_local(w))
		return 0;
	if (wqe_is_atomic(w) || w->length <= mtu)
		return 1;
	return (uint32_t)(((uint64_t)w->length + mtu - 1) / mtu);
}
