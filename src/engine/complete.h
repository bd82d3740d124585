/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions: the end of work requests, errors, the flush. With qp->lock. */
#ifndef UROCE_ENGINE_COMPLETE_H
#define UROCE_ENGINE_COMPLETE_H

#include "base/trace.h"
#include "engine/checks.h"
#include "engine/hooks.h"

/* Completes the WQE at sq.head: a CQE if it is signalled or failed; the next WQE becomes the head. */
void complete_head(struct qp *qp, enum ibv_wc_status status);
/* Completes WQEs at the head that were executed locally. */
void complete_local(struct qp *qp);
/* Fails the WQE at sq.head, and the QP, or (UC, UD) the send queue. */
void fail_head(struct qp *qp, enum ibv_wc_status status);
/* Fails the QP, or the send queue, after a completion with an error: IBTA 10.3.1. */
void fail_as_completed(struct qp *qp, bool is_send);
/* Takes the receive for the message that begins with this packet: resp.recv. False: none is posted. */
bool take_receive(struct qp *qp, const struct packet *first);
/* True if a receive is posted. Not for XRC. */
bool has_receive(struct qp *qp);
/* Completes the receive in progress, with this packet. */
void complete_receive(struct qp *qp, const struct packet *last);
/* Completes the receive in progress with an error, whose cause was set by cause_set(). */
void fail_receive(struct qp *qp, enum ibv_wc_status status, const struct packet *last);
/* Completes a posted receive with WR_FLUSH_ERR. */
void flush_receive(struct qp *qp, uint32_t position, uint64_t wr_id);

/* The one place where completions are written. `poller`: see cq_push(); `reclaimed`: of the queue whose slot it frees,
 * needed with a poller only. A CQE that does not fit has ended the CQ, and with it its QPs (IBTA 11.6.2.1); but the
 * caller may be in the middle of something, so the QP fails at settle_overrun(). */
static inline __attribute__((always_inline)) void complete(struct qp *qp, struct cq *cq, struct cq_poller *poller,
							   _Atomic uint32_t *reclaimed, struct cqe cqe)
{
	if (unlikely(!cq_push(cq, poller, reclaimed, cqe)) && qp->state != IBV_QPS_ERR)
		qp->cq_lost = true;
}

/* The CQE of a receive that has succeeded with `length` bytes; the caller fills in the rest. */
static inline __attribute__((always_inline)) struct cqe cqe_received(const struct qp *qp, uint64_t wr_id,
								     uint32_t position, uint32_t length)
{
	return (struct cqe){
		.wr_id = wr_id,
		.qpn = qp->base.qp_num,
		.byte_len = length,
		.src_qp = qp->attr.dest_qp_num,
		.wqe = position,
		.opcode = IBV_WC_RECV,
	};
}

/* The status of a completion whose bytes are to be in memory: an error if a copy to GPU memory has failed. Behind
 * hooks_any(). */
enum ibv_wc_status settled(enum ibv_wc_status status);

static inline struct cqe cqe_posted(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t position,
				    uint32_t length)
{
	return (struct cqe){
		.wr_id = wr->wr_id,
		.qpn = qp->base.qp_num,
		.byte_len = length,
		.wqe = position,
		.opcode = opcode_when_complete[wr->opcode],
	};
}

/* Completes work requests that were done as they were posted, without a WQE, and took `count` places in the queue from
 * `position` on. `length`: bytes of the first. */
void complete_posted_list(struct qp *qp, const struct ibv_send_wr *wr, uint32_t position, uint32_t count);

static inline __attribute__((always_inline)) void complete_posted(struct qp *qp, const struct ibv_send_wr *wr,
								  uint32_t position, uint32_t count, uint32_t length)
{
	if (hooks_any())
		hooks_complete_posted(qp, wr, position, count);
	if (unlikely(count != 1))
		complete_posted_list(qp, wr, position, count);
	else if (is_signaled(qp, wr))
		complete(qp, qp->send_cq, NULL, NULL, cqe_posted(qp, wr, position, length));
}

/* Moves the QP to ERR: everything outstanding is flushed. */
void enter_error(struct qp *qp);
/* The QP, which is in ERR, uses no receive of its SRQ any more: tells the program so, which may then free what the QP
 * used of it. */
void srq_is_left(struct qp *qp);
/* Completes the requests in the send queue with WR_FLUSH_ERR. */
void flush_sends(struct qp *qp);
/* Moves the QP to ERR, after an asynchronous event. */
void fail_with_event(struct qp *qp, enum ibv_event_type event);
/* Completes everything outstanding with WR_FLUSH_ERR, each queue in order; if a local peer has seen receives, at
 * engine_settled(). */
void flush(struct qp *qp);
/* True if the QP must not fail yet of itself, as messages may be on their way that are done for their sender: what
 * arrives before a failure completes before it. It fails when it is tried again, or at engine_settled(). */
bool settles_first(struct qp *qp);
/* Fails the QP if its CQ has overrun, between two steps. */
void settle_overrun(struct qp *qp) REQUIRES(qp->lock);
/* Notes the part of the peer's memory that a successful WRITE has proved writable. */
void requester_proved(struct qp *qp, const struct wqe *w);
/* complete() of a WQE with an error. */
void complete_failed(struct qp *qp, const struct wqe *w, uint32_t position, enum ibv_wc_status status);

/* complete_head(), inline. */
static inline __attribute__((always_inline)) void complete_wqe(struct qp *qp, struct wqe *w, enum ibv_wc_status status,
							       struct cq_poller *poller)
{
	uint32_t position = qp->sq.head++;

	if (hooks_any())
		status = hooks_complete(qp, w, position, settled(status));
	w->state = status == IBV_WC_SUCCESS ? WQE_COMPLETED : WQE_ERROR;
	if (unlikely(w->opcode == IBV_WR_RDMA_WRITE) && status == IBV_WC_SUCCESS)
		requester_proved(qp, w);
	qp->req.acked = 0;
	qp->reach_pair.receives.is_known &= !w->packets; /* packets may have used up a receive */
	if (unlikely(status != IBV_WC_SUCCESS))
		complete_failed(qp, w, position, status);
	else if (qp->sig_all || (w->flags & IBV_SEND_SIGNALED))
		complete(qp, qp->send_cq, poller, &qp->sq.reclaimed,
			 (struct cqe){
				 .wr_id = w->wr_id,
				 .qpn = qp->base.qp_num,
				 .byte_len = w->length,
				 .wqe = position,
				 .opcode = opcode_when_complete[w->opcode],
			 });
}

#endif
