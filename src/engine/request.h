/* SPDX-License-Identifier: BSD-2-Clause */
/* One packet of a work request (IBTA 9.7.2, 9.7.3): whether it may go out, its headers, its payload. With qp->lock. */
#ifndef UROCE_ENGINE_REQUEST_H
#define UROCE_ENGINE_REQUEST_H

#include "engine/tx_batch.h"
#include "engine/wqe.h"

/* True if the work request at the cursor can go out. False: it has to wait, or has failed. */
bool pick_up(struct qp *qp, struct wqe *w);
/* Makes one request packet of a work request. NULL: the tx batch is full, or the work request has failed. */
struct tx *request_packet(struct qp *qp, struct tx_batch *batch, struct wqe *w, uint32_t position, uint32_t packet,
			  psn_t psn, bool ask);
/* True if the tx batch has room for that packet. */
bool request_fits(const struct qp *qp, struct tx_batch *batch, const struct wqe *w, uint32_t packet);
/* Handles a packet of that work request that could not be sent: engine_unreadable(). */
void requester_unreadable(struct qp *qp, uint32_t position);
/* Sets the addresses and the Q_Key of a datagram. */
void datagram_address(struct qp *qp, struct wqe *w, struct tx *tx);

/* The Q_Key to send. IBTA 10.2.5: a Q_Key with the high bit set is privileged; the QP's own is sent in its place. */
static inline uint32_t datagram_qkey(const struct qp *qp, uint32_t asked)
{
	return asked >> 31 ? qp->attr.qkey : asked;
}

/* True for a WRITE that goes out as one WRITE for each packet: goes_in_pieces(). */
static inline bool is_in_pieces(const struct wqe *w)
{
	return w->opcode == IBV_WR_RDMA_WRITE && w->in_pieces;
}

#endif
