/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/request.h"

#include "base/trace.h"
#include "engine/complete.h"
#include "engine/onesided.h"
#include "object/window.h"

/* The opcodes of each work request on the wire. */
static const struct {
	uint8_t first, middle, last, only;
} opcodes[] = {
	[IBV_WR_SEND] = {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST, OP_SEND_ONLY},
	[IBV_WR_SEND_WITH_IMM] = {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_IMM, OP_SEND_ONLY_IMM},
	[IBV_WR_SEND_WITH_INV] = {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_INV, OP_SEND_ONLY_INV},
	[IBV_WR_RDMA_WRITE] = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST, OP_WRITE_ONLY},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM, OP_WRITE_ONLY_IMM},
	[IBV_WR_RDMA_READ] = {.only = OP_READ_REQUEST},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {.only = OP_COMPARE_SWAP},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {.only = OP_FETCH_ADD},
	[IBV_WR_ATOMIC_WRITE] = {.only = OP_ATOMIC_WRITE},
};

/* The status of a work request that cannot be sent at all; IBV_WC_SUCCESS if it can. A datagram that is too long fails
 * as on adapters; by IBTA C10-93.1.1 it would vanish and succeed. */
static enum ibv_wc_status check_local(struct qp *qp, const struct wqe *w)
{
	bool writes_word = w->opcode == IBV_WR_ATOMIC_WRITE;
	bool whole = qp->transport == TRANSPORT_UD || qp->transport == TRANSPORT_RAW; /* must fit into one packet */

	if (w->status != IBV_WC_SUCCESS)
		return w->status;
	if (w->length > (whole ? qp->mtu : HCA_MAX_MESSAGE))
		return IBV_WC_LOC_LEN_ERR;
	if ((wqe_is_atomic(w) || writes_word) && w->length != sizeof(uint64_t))
		return IBV_WC_LOC_LEN_ERR;
	if (wqe_wants_response(w) && qp->attr.max_rd_atomic == 0)
		return IBV_WC_LOC_QP_OP_ERR;
	/* a single packet is checked when it is made; the memory for a response, when that comes */
	if (w->packets != 1 && !wqe_wants_response(w) && !sge_allowed(qp->hca, qp->pd, w->sge, w->num_sge, 0))
		return IBV_WC_LOC_PROT_ERR;
	return IBV_WC_SUCCESS;
}

/* Executes a work request that needs no peer, at its turn in the queue. It completes after those before it. */
static enum ibv_wc_status execute_local(struct qp *qp, const struct wqe *w)
{
	const struct window_bind bind = {
		.window = w->bind_window,
		.tag = (uint8_t)w->rkey,
		.lkey = w->bind_lkey,
		.access = w->imm,
		.address = w->remote_addr,
		.length = w->bind_length,
	};
	bool ok = w->opcode == IBV_WR_BIND_MW ? window_bind(qp->hca, qp->pd, qp->serial, &bind)
					      : window_invalidate(qp->hca, qp->pd, qp->serial, w->imm);

	return ok ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
}

/* Fails a work request on this side. It waits until those before it are complete, so that completions stay in order. */
static void fail_local(struct qp *qp, uint32_t position, enum ibv_wc_status status)
{
	struct wqe *w = sq_at(&qp->sq, position);

	w->state = WQE_ERROR;
	w->status = status;
	if (qp->sq.head == position && !settles_first(qp))
		fail_head(qp, status);
}

void requester_unreadable(struct qp *qp, uint32_t position)
{
	struct requester *r = &qp->req;
	struct wqe *w = sq_at(&qp->sq, position);

	/* what follows has not been sent either, and will not be */
	r->wqe = position;
	r->packet = 0;
	if (is_reliable(qp)) {
		fail_local(qp, position, IBV_WC_LOC_PROT_ERR);
		return;
	}
	w->state = WQE_ERROR; /* fails when the requests before it, which have been sent, are complete */
	w->status = IBV_WC_LOC_PROT_ERR;
}

/* A WRITE of many packets may go out as a sequence of WRITEs of one packet each. The packets of a train are equal
 * in size: with a RETH in the first packet only, a train would end after its second packet, and the rest would be
 * another train. With a RETH in every packet, trains go on even from one request to the next. The peer's
 * application cannot tell the difference: lost packets are sent again, and a WRITE without immediate data is not
 * reported to it (one with immediate data is, with the length of the message). A WRITE that will be refused must be
 * refused as a whole, before anything is written: so this is only for memory to which the peer has allowed a WRITE
 * before. Between local peers there are no trains. */
static bool goes_in_pieces(const struct qp *qp, const struct wqe *w)
{
	const struct proven *known = &qp->req.proven;

	return w->opcode == IBV_WR_RDMA_WRITE && w->packets > 2 && is_reliable(qp) && !qp->req.lossless &&
	       w->rkey == known->rkey && w->remote_addr >= known->from && w->remote_addr <= known->to &&
	       w->length <= known->to - w->remote_addr;
}

bool pick_up(struct qp *qp, struct wqe *w)
{
	struct requester *r = &qp->req;
	enum ibv_wc_status status;

	if (qp->state == IBV_QPS_SQD || r->changing)
		return false;
	/* IBTA 10.8.3.3: a fenced request waits for READs and atomics before it */
	if ((w->flags & IBV_SEND_FENCE) && r->rd_count)
		return false;
	status = wqe_is_local(w) ? execute_local(qp, w) : check_local(qp, w);
	if (status != IBV_WC_SUCCESS) {
		fail_local(qp, r->wqe, status);
		return false;
	}
	w->psn = r->next;
	w->state = WQE_PROCESSING;
	if (w->opcode == IBV_WR_RDMA_WRITE)
		w->in_pieces = goes_in_pieces(qp, w);
	w->by_reference = onesided_refers(qp, w);
	trace(pickup, qp->base.qp_num, r->wqe, w->psn.v, w->packets, w->opcode, 0);
	return true;
}

static uint8_t opcode_of(const struct wqe *w, bool first, bool last)
{
	if (wqe_wants_response(w) || is_in_pieces(w) || (first && last))
		return opcodes[w->opcode].only;
	return first ? opcodes[w->opcode].first : last ? opcodes[w->opcode].last : opcodes[w->opcode].middle;
}

/* Adds the payload of a packet, or references to it. False: an SGE is not memory of the domain. */
static bool requester_fill(struct qp *qp, struct tx_batch *batch, struct tx *tx, const struct wqe *w, uint64_t offset,
			   uint32_t length)
{
	if (!wqe_is_by_reference(qp, w))
		return batch_gather(qp, batch, tx, w->sge, w->num_sge, offset, length);
	if (!sge_allowed(qp->hca, qp->pd, w->sge, w->num_sge, 0))
		return false;
	batch_refer(qp, batch, tx, w->sge, w->num_sge, offset, length);
	return true;
}

/* The place where post.c has put inline data. */
static const char *inline_bytes(const struct wqe *w)
{
	return w->opcode == IBV_WR_ATOMIC_WRITE ? (const char *)&w->compare_add : (const char *)w->sge;
}

struct tx *request_packet(struct qp *qp, struct tx_batch *batch, struct wqe *w, uint32_t position, uint32_t packet,
			  psn_t psn, bool ask)
{
	uint32_t span = wqe_span(qp, w, packet);
	bool first = packet == 0, last = packet + span == w->packets;
	uint8_t opcode = opcode_of(w, first, last);
	const struct opcode_info *info = &opcode_info[opcode];
	uint64_t offset = (uint64_t)packet * qp->req.mtu, bytes = (uint64_t)span * qp->req.mtu;
	struct tx *tx = batch_packet(qp, batch, opcode | qp->transport, psn);
	struct packet *p;

	if (!tx)
		return NULL;
	tx->position = position;
	p = &tx->packet;
	p->ack_request = ask;
	p->solicited = (w->flags & IBV_SEND_SOLICITED) && last && (info->flags & (IS_SEND | HAS_IMM));
	p->imm = w->imm;
	p->inv_rkey = w->imm;
	p->srqn = w->remote_srqn;
	p->rkey = w->rkey;
	p->va = w->remote_addr;
	if (info->flags & IS_READ) {
		p->va += offset;
		p->dma_length = (uint32_t)min_of(bytes, w->length - offset);
	} else if (info->flags & IS_ATOMIC) {
		p->compare = w->compare_add;
		p->swap_add = w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? w->compare_add : w->swap;
	} else {
		uint32_t length = (uint32_t)min_of(bytes, w->length - offset);

		p->dma_length = w->length;
		if (is_in_pieces(w)) {
			p->va += offset;
			p->dma_length = length;
		}
		if (w->flags & IBV_SEND_INLINE) {
			batch_bytes(batch, tx, inline_bytes(w) + offset, length);
		} else if (!requester_fill(qp, batch, tx, w, offset, length)) {
			batch_drop_last(batch, tx);
			fail_local(qp, position, IBV_WC_LOC_PROT_ERR);
			return NULL;
		}
	}
	trace(build, qp->base.qp_num, p->dest_qpn, psn.v, p->opcode, p->length, position);
	return tx;
}

/* Bytes of a request packet after its headers. */
static uint32_t payload_of(const struct qp *qp, const struct wqe *w, uint32_t packet)
{
	uint64_t offset = (uint64_t)packet * qp->req.mtu;

	if (wqe_is_by_reference(qp, w))
		return w->num_sge * (uint32_t)sizeof(struct packet_piece);
	if (wqe_wants_response(w) && w->opcode != IBV_WR_ATOMIC_WRITE)
		return 0;
	return (uint32_t)min_of((uint64_t)qp->req.mtu, w->length - offset);
}

bool request_fits(const struct qp *qp, struct tx_batch *batch, const struct wqe *w, uint32_t packet)
{
	return batch_has_room(batch, payload_of(qp, w, packet), false);
}

void datagram_address(struct qp *qp, struct wqe *w, struct tx *tx)
{
	struct packet *p = &tx->packet;

	tx->path = wqe_path(&qp->sq, w);
	p->dest_qpn = w->remote_qpn;
	p->src_qpn = qp->base.qp_num;
	p->qkey = datagram_qkey(qp, w->remote_qkey);
}
