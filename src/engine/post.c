/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: makes WQEs from work requests. */

#include <errno.h>
#include <string.h>

#include "base/trace.h"
#include "engine/cause.h"
#include "engine/complete.h"
#include "engine/engine.h"
#include "engine/hooks.h"
#include "memory/gpu.h"
#include "object/ah.h"
#include "object/receives.h"

/* Copies one SGE; an empty one needs no address. False: the memory cannot be read. */
static bool copy_piece(const struct sq *sq, void *to, const struct ibv_sge *sge)
{
	const void *from = (const void *)(uintptr_t)sge->addr;

	if (unlikely(sq->fast_inline != sq->max_inline))
		return gpu_read_any(to, from, sge->length);
	if (sge->length)
		memcpy(to, from, sge->length);
	return true;
}

/* Copies inline data behind the WQE. Returns their length, or more than max_inline if they do not fit. */
static uint64_t copy_inline(const struct sq *sq, struct wqe *w, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (length + sge->length > sq->max_inline)
			return (uint64_t)sq->max_inline + 1;
		if (!copy_piece(sq, (char *)w->sge + length, sge))
			return (uint64_t)sq->max_inline + 1;
		length += sge->length;
	}
	return length;
}

/* Copies the eight bytes of an ATOMIC_WRITE, which have a field in the WQE, whatever room the queue has. */
static uint64_t copy_word(const struct sq *sq, struct wqe *w, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (length + sge->length <= sizeof(w->compare_add) &&
		    !copy_piece(sq, (char *)&w->compare_add + length, sge))
			return sizeof(w->compare_add) + 1;
		length += sge->length;
	}
	return length;
}

static uint64_t copy_sges(struct wqe *w, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		w->sge[i] = wr->sg_list[i];
		length += wr->sg_list[i].length;
	}
	return length;
}

/* Stores the destination of a UD request, as the address handle may be destroyed first. An address handle of another
 * domain fails the request: IBTA 10.2.4, C10-10. */
static int address(struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr)
{
	const struct ah *ah = (const struct ah *)wr->wr.ud.ah;

	if (!ah)
		return EINVAL;
	if (ah->pd != qp->pd)
		w->status = IBV_WC_LOC_QP_OP_ERR;
	*wqe_path(&qp->sq, w) = ah->path;
	w->remote_qpn = wr->wr.ud.remote_qpn & QPN_MASK;
	w->remote_qkey = wr->wr.ud.remote_qkey;
	return 0;
}

static int build_bind(struct wqe *w, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	if (!wr->bind_mw.mw || (!info->mr && (info->addr || info->length)))
		return EINVAL;
	w->imm = info->mw_access_flags;
	w->rkey = wr->bind_mw.rkey;
	w->remote_addr = info->addr;
	w->bind_length = info->length;
	w->bind_window = wr->bind_mw.mw->handle;
	w->bind_lkey = info->mr ? info->mr->lkey : 0;
	/* the key is the index of the window and 8 bits of the caller's. The man pages leave open who sets the rkey
	 * of a type 2 window, and programs rely on this */
	wr->bind_mw.mw->rkey = (wr->bind_mw.mw->rkey & ~0xffu) | (w->rkey & 0xff);
	return 0;
}

static void trim(struct wqe *w, uint32_t length)
{
	w->length = length = min_of(w->length, length);
	for (uint32_t i = 0; i < w->num_sge; i++) {
		w->sge[i].length = min_of(w->sge[i].length, length);
		length -= w->sge[i].length;
	}
}

static int post_build(struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr)
{
	enum wr_kind kind = wqe_kind(qp, wr->opcode);
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	const struct sq *sq = &qp->sq;
	uint64_t length;

	if (kind == WR_NONE)
		return EINVAL;
	if (is_inline && (kind == WR_READ || kind == WR_ATOMIC))
		return EINVAL;
	if ((kind == WR_BIND || kind == WR_INVALIDATE) && (is_inline || wr->num_sge))
		return EINVAL;
	/* inline data need no SGE in the queue, but the length of their list is limited as well: ibv_post_send(3) */
	if (!sges_fit(wr->sg_list, wr->num_sge,
		      kind == WR_ATOMIC_WRITE && is_inline ? max_of(sq->max_sge, 1u) : sq->max_sge))
		return EINVAL;
	length = !is_inline		   ? copy_sges(w, wr)
		 : kind == WR_ATOMIC_WRITE ? copy_word(sq, w, wr)
					   : copy_inline(sq, w, wr);
	if (is_inline && length > (kind == WR_ATOMIC_WRITE ? sizeof(w->compare_add) : sq->max_inline))
		return EINVAL;
	w->wr_id = wr->wr_id;
	w->length = min_of(length, (uint64_t)UINT32_MAX); /* the requester refuses what is too long */
	w->opcode = wr->opcode;
	w->flags = wr->send_flags;
	w->state = WQE_POSTED;
	w->num_sge = is_inline ? 0 : wr->num_sge;
	w->status = IBV_WC_SUCCESS;
	w->by_reference = false;
	w->remote_srqn = wr->qp_type.xrc.remote_srqn & QPN_MASK; /* used by XRC only */
	if (qp->transport == TRANSPORT_XRC &&
	    hca_owner(qp->hca, w->remote_srqn) != hca_owner(qp->hca, qp->attr.dest_qp_num))
		qp->xrc->is_passed_on = true;
	w->imm = wr->imm_data; /* or invalidate_rkey, in the same union */
	switch (kind) {
	case WR_ATOMIC:
		trim(w, sizeof(uint64_t)); /* adapters differ: some refuse more room than that */
		w->remote_addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->compare_add = wr->wr.atomic.compare_add;
		w->swap = wr->wr.atomic.swap;
		break;
	case WR_WRITE:
	case WR_READ:
	case WR_ATOMIC_WRITE:
		w->remote_addr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
		break;
	case WR_DATAGRAM:
		return address(qp, w, wr);
	case WR_BIND:
		return build_bind(w, wr);
	default:
		break;
	}
	return 0;
}

static int engine_post_one(struct qp *qp, const struct ibv_send_wr *wr)
{
	struct sq *sq = &qp->sq;
	struct wqe *w;
	int err;

	/* relaxed: see cq.c reclaim() */
	if (sq->tail - atomic_load_explicit(&sq->reclaimed, memory_order_relaxed) >= sq->depth)
		return ENOMEM;
	w = sq_at(sq, sq->tail);
	err = post_build(qp, w, wr);
	if (err)
		return err;
	w->packets = qp->state == IBV_QPS_ERR ? 0 : wqe_packets(qp, w); /* in ERR there may be no path MTU */
	if (hooks_any()) {
		err = hooks_post(qp, w);
		if (err)
			return err;
	}
	sq->tail++;
	return 0;
}

int engine_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	/* IBTA 10.3.1: requests posted in SQE or ERR complete in error */
	bool may_post = qp->state >= IBV_QPS_RTS && qp->state <= IBV_QPS_ERR && !is_xrc_target(qp);
	int err = 0;

	for (; wr && !err; wr = wr->next) {
		err = may_post ? engine_post_one(qp, wr) : EINVAL;
		if (err) {
			*bad = wr;
			cause_post(qp, wr, err);
		}
	}
	if (qp->state == IBV_QPS_ERR)
		flush(qp);
	else if (qp->state == IBV_QPS_SQE)
		flush_sends(qp);
	return err;
}

static __attribute__((noinline)) int post_receives(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
	REQUIRES(qp->lock)
{
	int err;

	if ((qp->state == IBV_QPS_RESET || qp->srq || qp->transport == TRANSPORT_XRC) && wr) {
		*bad = wr;
		return cause_post_receive(qp);
	}
	err = rq_post(&qp->rq, qp->base.qp_num, wr, bad);
	if (qp->rq.shown)
		receives_show_rest(&qp->rq);
	if (qp->state == IBV_QPS_ERR)
		flush(qp);
	return err;
}

/* The most frequent case is one request with one SGE. */
int engine_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	bool takes =
		qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_ERR && !qp->srq && qp->transport != TRANSPORT_XRC;

	if (likely(takes && wr && !wr->next && wr->num_sge == 1 && rq_post_piece(&qp->rq, wr))) {
		trace(post_recv, qp->base.qp_num, qp->rq.tail - 1, wr->wr_id, 0, wr->sg_list->length, 0);
		receives_posted(&qp->rq);
		return 0;
	}
	return post_receives(qp, wr, bad);
}
