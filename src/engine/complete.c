/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/complete.h"

#include "engine/cause.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "engine/owed.h"
#include "engine/timers.h"
#include "memory/gpu.h"
#include "object/receives.h"
#include "wire/grh.h"

enum ibv_wc_status settled(enum ibv_wc_status status)
{
	return status != IBV_WC_SUCCESS || !hook_is_on(HOOK_GPU) || gpu_settle() ? status : IBV_WC_FATAL_ERR;
}

/* XRC: the completion goes to the CQ of the SRQ that the message named; if that is gone, the message is lost with
 * it. */
static void push_receive(struct qp *qp, struct cqe *cqe)
{
	struct srq *srq, *named;

	if (hooks_any()) {
		cqe->status = (uint8_t)settled(cqe->status);
		cqe->status = (uint8_t)hooks_complete_receive(qp, cqe);
	}
	if (!is_xrc_target(qp)) {
		complete(qp, qp->recv_cq, NULL, NULL, *cqe);
		return;
	}
	named = qp->xrc->srq;
	srq = named ?: srq_enter(qp->hca, qp->xrc->srqn, &qp->xrc->domain);
	if (!srq)
		return;
	cqe->marks |= CQE_KEEPS_SLOT;
	complete(qp, srq->cq, NULL, NULL, *cqe);
	if (!named)
		srq_leave(srq);
}

void complete_head(struct qp *qp, enum ibv_wc_status status)
{
	complete_wqe(qp, sq_at(&qp->sq, qp->sq.head), status, NULL);
}

/* IBTA 10.3.1: an error in the send queue of UC or UD leaves the receive queue alone. */
static void enter_send_error(struct qp *qp)
{
	engine_set_state(qp, IBV_QPS_SQE);
	qp->attr.cur_qp_state = IBV_QPS_SQE;
	flush_sends(qp);
}

void fail_as_completed(struct qp *qp, bool is_send)
{
	if (is_reliable(qp) || !is_send)
		enter_error(qp);
	else
		enter_send_error(qp);
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
	fail_as_completed(qp, true);
}

/* Takes the lock of the CQ once. A CQ that is armed, or full, takes the ordinary way. */
void complete_posted_list(struct qp *qp, const struct ibv_send_wr *wr, uint32_t position, uint32_t count)
{
	struct cq *cq = qp->send_cq;
	struct cqe cqe;

	lock_take(&cq->lock);
	for (; count; count--, position++, wr = wr->next) {
		if (!is_signaled(qp, wr))
			continue;
		cqe = cqe_posted(qp, wr, position, (uint32_t)posted_length(wr));
		if (likely(cq_arm(cq) == CQ_UNARMED && cq_put(cq, cqe)))
			continue;
		lock_drop(&cq->lock);
		complete(qp, cq, NULL, NULL, cqe);
		lock_take(&cq->lock);
	}
	lock_drop(&cq->lock);
}

/* A region has no holes: all between two allowed accesses is allowed. */
void requester_proved(struct qp *qp, const struct wqe *w)
{
	struct proven *known = &qp->req.proven;
	uint64_t to = w->remote_addr + w->length;

	if (!w->length || to < w->remote_addr)
		return;
	if (known->rkey == w->rkey && known->to)
		*known = (struct proven){min_of(known->from, w->remote_addr), max_of(known->to, to), w->rkey};
	else
		*known = (struct proven){w->remote_addr, to, w->rkey};
}

void complete_failed(struct qp *qp, const struct wqe *w, uint32_t position, enum ibv_wc_status status)
{
	complete(qp, qp->send_cq, NULL, &qp->sq.reclaimed,
		 (struct cqe){
			 .wr_id = w->wr_id,
			 .qpn = qp->base.qp_num,
			 .byte_len = w->length,
			 .wqe = position,
			 .imm = cause_of_failure(qp, w, status),
			 .marks = CQE_FAILED,
			 .status = status,
			 .opcode = opcode_when_complete[w->opcode],
		 });
}

bool take_receive(struct qp *qp, const struct packet *first)
{
	struct responder *r = &qp->resp;

	struct srq *srq = xrc_srq(qp) ?: qp->srq;

	r->has_recv = srq ? srq_take(srq, r->credit, r->recv, &r->recv_position)
			  : rq_take(&qp->rq, r->credit, r->recv, &r->recv_position);
	receives_taken(&qp->rq);
	if (r->has_recv)
		trace(match, qp->base.qp_num, r->recv_position, r->recv->wr_id, first->psn.v, 0, 0);
	return r->has_recv;
}

bool has_receive(struct qp *qp)
{
	return qp->srq ? !srq_is_empty(qp->srq) : qp->rq.head != qp->rq.tail;
}

/* Completes the receive in progress. Inlined twice, so that a success has no test for failures. */
static inline __attribute__((always_inline)) void push_received(struct qp *qp, enum ibv_wc_status status,
								const struct packet *last)
{
	const struct opcode_info *info = &opcode_info[last->opcode];
	struct responder *r = &qp->resp;
	struct cqe cqe = cqe_received(qp, r->recv->wr_id, r->recv_position, r->received);

	cqe.status = status;
	cqe.opcode = info->flags & IS_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	cqe.marks = last->solicited ? CQE_SOLICITED : 0;
	if (info->flags & HAS_DETH) {
		cqe.flags = IBV_WC_GRH;
		cqe.marks |= grh_kind(last) * CQE_SL;
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
	if (status != IBV_WC_SUCCESS) {
		cqe.marks |= CQE_FAILED;
		cqe.imm = qp->cause;
	}
	r->has_recv = false;
	push_receive(qp, &cqe);
}

void complete_receive(struct qp *qp, const struct packet *last)
{
	push_received(qp, IBV_WC_SUCCESS, last);
}

void fail_receive(struct qp *qp, enum ibv_wc_status status, const struct packet *last)
{
	push_received(qp, status, last);
}

void flush_receive(struct qp *qp, uint32_t position, uint64_t wr_id)
{
	struct cqe cqe = cqe_received(qp, wr_id, position, 0);

	cause_set(qp, CAUSE_MOVED);
	cqe.imm = CAUSE_FLUSHED | qp->cause;
	cqe.marks = CQE_FAILED;
	cqe.status = IBV_WC_WR_FLUSH_ERR;
	push_receive(qp, &cqe);
}

void flush_sends(struct qp *qp)
{
	while (qp->sq.head != qp->sq.tail)
		complete_head(qp, IBV_WC_WR_FLUSH_ERR);
	qp->req.wqe = qp->sq.tail;
	qp->req.packet = 0;
}

static void flush_receives(struct qp *qp)
{
	struct responder *r = &qp->resp;
	uint32_t position, cell = 0;
	uint64_t wr_id;

	if (r->has_recv)
		flush_receive(qp, r->recv_position, r->recv->wr_id);
	r->has_recv = false;
	while (rq_take(&qp->rq, NULL, r->recv, &position))
		flush_receive(qp, position, r->recv->wr_id);
	while (qp->rq.of_srq && srq_take_claimed(qp->srq, qp->index, &cell, &position, &wr_id))
		flush_receive(qp, position, wr_id);
}

void flush(struct qp *qp)
{
	if (unlikely(qp->rq.settling)) { /* some of the receives may be in use, and complete first */
		qp->hca->ops->qp_settles(qp);
		return;
	}
	flush_sends(qp);
	flush_receives(qp);
}

bool settles_first(struct qp *qp)
{
	receives_hide(&qp->rq);
	if (qp->rq.settling)
		qp->hca->ops->qp_settles(qp);
	return qp->rq.settling;
}

void srq_is_left(struct qp *qp)
{
	if (qp->srq)
		qp->hca->ops->qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

NO_LOCK_ANALYSIS /* called with qp->lock held, like all functions here */
	void
	enter_error(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (qp->state == IBV_QPS_ERR)
		return;
	engine_set_state(qp, IBV_QPS_ERR);
	qp_show(qp);
	r->response_count = 0;
	r->ack = ACK_NONE;
	r->cnp_owed = false;
	r->inbound = INBOUND_NONE;
	responder_drop_early(qp);
	retry_reset(qp);
	flush(qp);
	if (!qp->rq.settling)
		srq_is_left(qp);
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

/* True if a rule gave a completion an error, and the QP has failed with it. */
static bool settle_injected(struct qp *qp)
{
	struct inject_qp *q = qp->inject;
	bool fails = q && q->serial == qp->serial && q->fails;

	if (fails) {
		q->fails = false;
		fail_as_completed(qp, true);
	}
	return fails;
}

static void fail_overrun(struct qp *qp)
{
	const struct cq *cq = qp->send_cq && cq_overrun(qp->send_cq) ? qp->send_cq : qp->recv_cq;

	cause_set(qp, CAUSE_CQ_OVERRUN);
	cause_say(CAUSE_CQ_OVERRUN,
		  "QP 0x%x fails: a completion queue of %u entries was full, and its completion is lost",
		  qp->base.qp_num, cq->depth);
	fail_with_event(qp, IBV_EVENT_QP_FATAL);
}

/* IBTA 11.6.2.1 */
void settle_overrun(struct qp *qp)
{
	if (!qp->cq_lost)
		return;
	qp->cq_lost = false;
	if (qp->state != IBV_QPS_ERR && !settle_injected(qp))
		fail_overrun(qp);
}
