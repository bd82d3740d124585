/* SPDX-License-Identifier: BSD-2-Clause */
/* How work requests end: completions, errors, the flush. */
#include "base/trace.h"
#include "engine/internal.h"
#include "object/show.h"
#include "wire/grh.h"

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

/* Of XRC, to the CQ of the SRQ that the message has named; it may be gone, and the message with it. */
static void push_receive(struct qp *qp, struct cqe *cqe)
{
	struct srq *srq, *named;

	if (!is_xrc_target(qp)) {
		complete_with(qp, qp->recv_cq, *cqe);
		return;
	}
	named = qp->xrc->srq;
	srq = named ?: srq_enter(qp->hca, qp->xrc->srqn, &qp->xrc->domain);
	if (!srq)
		return;
	cqe->keeps_slot = true;
	complete_with(qp, srq->cq, *cqe);
	if (!named)
		srq_leave(srq);
}

void complete_head(struct qp *qp, enum ibv_wc_status status)
{
	uint32_t position = qp->sq.head;
	struct wqe *w = sq_at(&qp->sq, position);

	w->state = status == IBV_WC_SUCCESS ? WQE_COMPLETED : WQE_ERROR;
	if (status == IBV_WC_SUCCESS && w->opcode == IBV_WR_RDMA_WRITE)
		requester_proved(qp, w);
	trace(complete, qp->base.qp_num, position, w->wr_id, status, w->opcode, w->length);
	qp->sq.head++;
	qp->req.acked = 0;
	if (status != IBV_WC_SUCCESS || qp->sig_all || (w->flags & IBV_SEND_SIGNALED))
		complete_with(qp, qp->send_cq,
			      (struct cqe){
				      .wr_id = w->wr_id,
				      .qpn = qp->base.qp_num,
				      .byte_len = w->length,
				      .wqe = position,
				      .status = status,
				      .opcode = opcode_when_complete[w->opcode],
			      });
}

void complete_at_once(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length)
{
	complete_with(qp, qp->send_cq,
		      (struct cqe){
			      .wr_id = wr->wr_id,
			      .qpn = qp->base.qp_num,
			      .byte_len = length,
			      .wqe = qp->sq.head - 1,
			      .opcode = opcode_when_complete[wr->opcode],
		      });
}

/* IBTA 10.3.1: what fails in the send queue of UC or UD leaves the receive queue alone. */
static void enter_send_error(struct qp *qp)
{
	trace(qp_state, qp->base.qp_num, qp->state, IBV_QPS_SQE, 0, 0, 0);
	qp->state = qp->attr.qp_state = qp->attr.cur_qp_state = IBV_QPS_SQE;
	flush_sends(qp);
}

void complete_local(struct qp *qp)
{
	while (qp->sq.head != qp->sq.tail) {
		const struct wqe *w = sq_at(&qp->sq, qp->sq.head);

		if (w->state != WQE_PROCESSING || w->packets)
			break;
		complete_head(qp, IBV_WC_SUCCESS);
	}
}

void fail_head(struct qp *qp, enum ibv_wc_status status)
{
	complete_head(qp, status);
	if (is_reliable(qp))
		enter_error(qp);
	else
		enter_send_error(qp);
}

bool take_receive(struct qp *qp, const struct packet *first)
{
	struct responder *r = &qp->resp;

	struct srq *srq = xrc_srq(qp) ?: qp->srq;

	r->has_recv = srq ? srq_take(srq, r->credit, r->recv, &r->recv_position)
			  : rq_take(&qp->rq, r->credit, r->recv, &r->recv_position);
	if (r->has_recv)
		trace(match, qp->base.qp_num, r->recv_position, r->recv->wr_id, first->psn.v, 0, 0);
	return r->has_recv;
}

bool has_receive(struct qp *qp)
{
	bool any;

	if (!qp->srq)
		return qp->rq.head != qp->rq.tail;
	lock_take(&qp->srq->rq.lock);
	any = qp->srq->rq.head != qp->srq->rq.tail;
	lock_drop(&qp->srq->rq.lock);
	return any;
}

void complete_receive(struct qp *qp, enum ibv_wc_status status, const struct packet *last)
{
	const struct opcode_info *info = &opcode_info[last->opcode];
	struct responder *r = &qp->resp;
	struct cqe cqe = {
		.wr_id = r->recv->wr_id,
		.qpn = qp->base.qp_num,
		.byte_len = r->received,
		.wqe = r->recv_position,
		.status = status,
		.opcode = info->flags & IS_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.solicited = last->solicited,
		.src_qp = qp->attr.dest_qp_num,
	};

	if (info->flags & HAS_DETH) {
		cqe.flags = IBV_WC_GRH;
		cqe.sl = grh_kind(last);
		cqe.src_qp = last->src_qpn;
	}
	if (qp->transport == TRANSPORT_RAW)
		cqe.imm = last->imm; /* the tag */
	if (info->flags & HAS_IMM) {
		cqe.flags |= IBV_WC_WITH_IMM;
		cqe.imm = last->imm;
	} else if (info->flags & HAS_IETH) {
		cqe.flags = IBV_WC_WITH_INV;
		cqe.imm = last->inv_rkey;
	}
	r->has_recv = false;
	trace(complete_recv, qp->base.qp_num, cqe.wqe, cqe.wr_id, status, cqe.opcode, cqe.byte_len);
	push_receive(qp, &cqe);
}

void flush_receive(struct qp *qp, uint32_t position, uint64_t wr_id)
{
	trace(complete_recv, qp->base.qp_num, position, wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0);
	push_receive(qp, &(struct cqe){
				 .wr_id = wr_id,
				 .qpn = qp->base.qp_num,
				 .wqe = position,
				 .status = IBV_WC_WR_FLUSH_ERR,
				 .opcode = IBV_WC_RECV,
			 });
}

void flush_sends(struct qp *qp)
{
	while (qp->sq.head != qp->sq.tail)
		complete_head(qp, IBV_WC_WR_FLUSH_ERR);
	qp->req.wqe = qp->sq.tail;
	qp->req.packet = 0;
}

/* Everything outstanding completes with WR_FLUSH_ERR, each queue in order. */
void flush(struct qp *qp)
{
	struct responder *r = &qp->resp;
	uint32_t position;

	flush_sends(qp);
	if (r->has_recv)
		flush_receive(qp, r->recv_position, r->recv->wr_id);
	r->has_recv = false;
	while (rq_take(&qp->rq, NULL, r->recv, &position))
		flush_receive(qp, position, r->recv->wr_id);
}

NO_LOCK_ANALYSIS /* as all here, it is called with qp->lock held */
	void
	enter_error(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (qp->state == IBV_QPS_ERR)
		return;
	trace(qp_state, qp->base.qp_num, qp->state, IBV_QPS_ERR, 0, 0, 0);
	qp->state = qp->attr.qp_state = IBV_QPS_ERR;
	show_qp(qp);
	r->response_count = 0;
	r->ack_owed = r->ack_asked = r->ack_urgent = r->cnp_owed = false;
	r->inbound = INBOUND_NONE;
	retry_reset(qp);
	flush(qp);
	/* from here on its owner may take away what this QP used of the SRQ */
	if (qp->srq)
		qp->hca->ops->qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void fail_with_event(struct qp *qp, enum ibv_event_type event)
{
	qp->failed = event;
	qp->hca->ops->qp_event(qp, event);
	enter_error(qp);
}

void engine_fail(struct qp *qp)
{
	enter_error(qp);
}
