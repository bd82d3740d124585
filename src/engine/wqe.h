/* SPDX-License-Identifier: BSD-2-Clause */
/* A work request as the wire sees it: the opcodes of a transport, the number of packets of a request, and their charge
 * in the congestion window. Depends on one WQE and the constants of its QP; needs no lock beyond qp->lock. */
#ifndef UROCE_ENGINE_WQE_H
#define UROCE_ENGINE_WQE_H

#include "engine/tuned.h"
#include "object/qp.h"

/* PSNs that `length` bytes take. */
static inline uint32_t packets_of(uint32_t mtu, uint32_t length)
{
	return length <= mtu ? 1 : (uint32_t)(((uint64_t)length + mtu - 1) / mtu);
}

/* Kinds of work requests, as their fields are read. */
enum wr_kind {
	WR_NONE, /* not for this transport */
	WR_SEND,
	WR_WRITE,
	WR_READ,
	WR_ATOMIC,
	WR_ATOMIC_WRITE,
	WR_DATAGRAM,
	WR_BIND,
	WR_INVALIDATE,
};

/* True if the transport has that opcode. */
bool post_has_opcode(const struct qp *qp, enum ibv_wr_opcode opcode);
/* Completion opcode of each enum ibv_wr_opcode. */
extern const uint8_t opcode_when_complete[];

static inline bool is_signaled(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return qp->sig_all || (wr->send_flags & IBV_SEND_SIGNALED);
}

static inline bool wqe_is_send(const struct wqe *w)
{
	return w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM || w->opcode == IBV_WR_SEND_WITH_INV;
}

/* PSNs that a request takes; 0: a local one. */
uint32_t wqe_packets(const struct qp *qp, const struct wqe *w);
/* The kind of an opcode on this transport. */
enum wr_kind wqe_kind(const struct qp *qp, enum ibv_wr_opcode opcode);

/* Atomics with a result: compare and swap, fetch and add. */
static inline bool wqe_is_atomic(const struct wqe *w)
{
	return w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Requests that need no peer: bind and invalidate. */
static inline bool wqe_is_local(const struct wqe *w)
{
	return w->opcode == IBV_WR_BIND_MW || w->opcode == IBV_WR_LOCAL_INV;
}

/* READ, atomic, atomic write: a response completes it, an ACK does not. */
static inline bool wqe_wants_response(const struct wqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ || wqe_is_atomic(w) || w->opcode == IBV_WR_ATOMIC_WRITE;
}

/* True if its packets refer to their payload in place of carrying it. */
static inline bool wqe_is_by_reference(const struct qp *qp, const struct wqe *w)
{
	return w->by_reference && !qp->req.plain;
}

/* Charge, in bytes, of its packets [from, to); a READ is charged for its responses. */
static inline uint32_t wqe_charge(const struct qp *qp, const struct wqe *w, uint32_t from, uint32_t to)
{
	uint64_t length = wqe_is_atomic(w) ? 0 : w->length;
	uint64_t begin = min_of((uint64_t)from * qp->req.mtu, length), end = min_of((uint64_t)to * qp->req.mtu, length);

	return (uint32_t)(end - begin) + (to - from) * PACKET_OVERHEAD;
}

/* Packets from this one to the end of its chunk or of the message. */
static inline uint32_t chunk_left(const struct qp *qp, const struct wqe *w, uint32_t packet)
{
	uint32_t bytes = !wqe_is_by_reference(qp, w) ? READ_CHUNK : w->of_gpu ? REFERENCE_CHUNK_GPU : REFERENCE_CHUNK;
	uint32_t chunk = bytes / qp->req.mtu;

	return min_of(w->packets - packet, chunk - packet % chunk);
}

/* PSNs of its next request packet, from `packet` on. */
static inline uint32_t wqe_span(const struct qp *qp, const struct wqe *w, uint32_t packet)
{
	return w->opcode == IBV_WR_RDMA_READ || wqe_is_by_reference(qp, w) ? chunk_left(qp, w, packet) : 1;
}

#endif
