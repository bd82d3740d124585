/* SPDX-License-Identifier: BSD-2-Clause */
/* The one way in: engine_receive(). First comes the fast path, for the most common packets: a whole message (SEND,
 * WRITE with immediate data, datagram) in order, or an ACK for whole messages. It changes the same state as the rest of
 * the engine, in fewer steps, and changes nothing where it declines; the slow path then finds the reason. */

#include <string.h>

#include "base/trace.h"
#include "engine/checks.h"
#include "engine/cause.h"
#include "engine/complete.h"
#include "engine/completer.h"
#include "engine/engine.h"
#include "engine/flow.h"
#include "engine/kept.h"
#include "engine/onesided.h"
#include "engine/owed.h"
#include "engine/responder.h"
#include "engine/timers.h"
#include "engine/unreliable.h"
#include "object/receives.h"
#include "wire/grh.h"

/* ---- the fast path: acknowledgements ---- */

/* Completes the requests up to `psn`, if each is a whole message of which nothing is known to be wrong. `now`:
 * UNTIMED between local peers. False: the slow path continues from here. */
static bool fast_acknowledge(struct qp *qp, psn_t psn, uint64_t now, struct cq_poller *poller)
{
	struct requester *r = &qp->req;
	struct sq *sq = &qp->sq;
	uint32_t before = (uint32_t)psn_diff(psn, r->una), left = before + 1; /* packets; huge: `psn` is an old one */
	uint32_t packets = 0, charge = 0;
	struct wqe *w;

	if (unlikely(qp->state != IBV_QPS_RTS || r->lossless != (now == UNTIMED) || r->rd_count ||
		     r->next.v != r->high.v || before >= (uint32_t)psn_diff(r->next, r->una)))
		return false;
	trace(acknowledged, qp->base.qp_num, psn.v, SYNDROME_ACK, 0, OP_ACKNOWLEDGE, 0);
	do {
		w = sq_at(sq, sq->head);
		if (unlikely(w->packets - 1 >= left || r->acked)) /* 0 packets: executed locally */
			break;
		left -= w->packets;
		packets += w->packets;
		charge += w->length + w->packets * PACKET_OVERHEAD; /* wqe_charge() */
		complete_wqe(qp, w, IBV_WC_SUCCESS, poller);
	} while (left);
	if (unlikely(!packets))
		return false;
	requester_acknowledged(r, packets, charge);
	if (unlikely(left))
		return false;
	if (now == UNTIMED)
		note_moved(qp);
	else
		note_progress(qp, now);
	if (sq->head != sq->tail) {
		complete_local(qp);
		completer_settle(qp);
	}
	return likely(qp->state == IBV_QPS_RTS);
}

/* ---- the responder ---- */

/* True if the packet is the next message, as a whole. */
static bool fast_may_take(const struct qp *qp, const struct packet *p)
{
	const struct responder *r = &qp->resp;

	return p->pieces <= 1 && p->psn.v == r->expected.v && r->inbound == INBOUND_NONE && !r->has_recv;
}

/* The receive for the message; NULL: none, or not for the fast path. A receive of an SRQ belongs to the QP from then
 * on, also if the slow path continues, which takes it next. So SRQs serve only SENDs here: nothing else of them is
 * checked before. */
static const struct rwqe *fast_find_receive(struct qp *qp, const struct packet *p)
{
	if (!qp->srq)
		return qp->rq.head != qp->rq.tail ? rq_at(&qp->rq, qp->rq.head) : NULL;
	if (p->opcode == OP_WRITE_ONLY_IMM)
		return NULL;
	return take_receive(qp, p) ? qp->resp.recv : NULL;
}

/* The position of that receive. */
static uint32_t fast_position(const struct qp *qp)
{
	return qp->srq ? qp->resp.recv_position : qp->rq.head;
}

/* Uses up that receive. */
static void fast_finish_receive(struct qp *qp)
{
	if (qp->srq)
		qp->resp.has_recv = false;
	else
		qp->rq.head++;
}

static bool fast_store_write(const struct qp *qp, const struct packet *p)
{
	struct mr *mr;
	char *at;
	bool ok;

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) || p->length != p->dma_length || p->pieces)
		return false;
	if (!p->length)
		return true;
	mr = remote_region(qp, p->rkey, p->va, p->length, IBV_ACCESS_REMOTE_WRITE, &at);
	if (!mr)
		return false;
	ok = mr_write(mr, at, p->payload, p->length);
	mr_put(mr);
	return ok;
}

/* The region for that many bytes; NULL: the slow path finds the reason, or another way. */
static inline struct mr *fast_find_memory(struct qp *qp, const struct pd *pd, const struct ibv_sge *sge,
					  uint32_t length)
{
	struct mr *mr = sge_region_again(qp->hca, &qp->rq.last, pd, sge, length, IBV_ACCESS_LOCAL_WRITE);

	if (likely(!mr || !mr_is_indirect(mr)))
		return mr;
	mr_put(mr);
	return NULL;
}

static inline __attribute__((always_inline)) bool fast_store_send(struct qp *qp, const struct packet *p,
								  const struct ibv_sge *sge, bool is_common)
{
	struct mr *mr = fast_find_memory(qp, is_common ? qp->pd : receive_pd(qp), sge, p->length);
	bool ok;

	if (unlikely(!mr))
		return false;
	if (!is_common && unlikely(p->pieces))
		ok = onesided_fetch_piece(qp, (const struct packet_piece *)p->payload, mr_at(mr, sge->addr));
	else
		ok = fault_store(mr_at(mr, sge->addr), p->payload, p->length);
	mr_put(mr);
	return ok;
}

/* Stores the bytes. False: not possible here; the slow path finds the reason. */
static inline __attribute__((always_inline)) bool fast_store(struct qp *qp, const struct packet *p,
							     const struct rwqe *recv, bool is_common)
{
	if (!is_common && p->opcode == OP_WRITE_ONLY_IMM)
		return fast_store_write(qp, p);
	if (unlikely(p->length > recv->length))
		return false;
	if (likely(recv->num_sge == 1 && p->length))
		return fast_store_send(qp, p, recv->sge, is_common);
	return !p->pieces && sge_scatter(qp->hca, receive_pd(qp), recv->sge, recv->num_sge, 0, p->payload, p->length);
}

/* Calls the hooks on a message that is taken at once. Returns the status of its completion. */
static __attribute__((cold, noinline)) uint8_t fast_hooks(struct qp *qp, const struct packet *p, struct cqe cqe)
{
	bool is_write = cqe.opcode == IBV_WC_RECV_RDMA_WITH_IMM;

	if (!qp->srq) /* with an SRQ, take_receive() has told */
		trace(match, cqe.qpn, cqe.wqe, cqe.wr_id, p->psn.v, 0, 0);
	trace(execute, cqe.qpn, p->psn.v, p->opcode, is_write ? p->va : 0, p->length, 0);
	cqe.status = (uint8_t)settled(cqe.status);
	return (uint8_t)hooks_complete_receive(qp, &cqe);
}

/* True for the most common packets, which have a short way of their own below. */
static inline bool fast_take_is_common(const struct qp *qp, const struct packet *p)
{
	return likely(p->opcode == OP_SEND_ONLY && !p->pieces && !qp->srq && qp->rq.head != qp->rq.tail);
}

/* The completion of a whole message, shown to the hooks. `position`: of its receive. */
static inline __attribute__((always_inline)) struct cqe cqe_of_message(struct qp *qp, const struct packet *p,
								       uint64_t wr_id, uint32_t position, bool has_imm,
								       bool is_write)
{
	struct cqe cqe = cqe_received(qp, wr_id, position, p->length);

	cqe.imm = has_imm ? p->imm : 0;
	cqe.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	cqe.flags = has_imm ? IBV_WC_WITH_IMM : 0;
	cqe.marks = p->solicited ? CQE_SOLICITED : 0;
	if (hooks_any())
		cqe.status = fast_hooks(qp, p, cqe);
	return cqe;
}

/* Takes a request. `is_common`: a constant. */
static inline __attribute__((always_inline)) bool fast_take_any(struct qp *qp, const struct packet *p,
								struct cq_poller *poller, bool is_common)
{
	bool has_imm = !is_common && p->opcode != OP_SEND_ONLY, is_write = has_imm && p->opcode == OP_WRITE_ONLY_IMM;
	uint32_t packets = is_common || !p->pieces ? 1 : packets_of(p->mtu, p->length);
	struct cqe cqe;
	const struct rwqe *recv = is_common ? rq_at(&qp->rq, qp->rq.head) : fast_find_receive(qp, p);

	__builtin_prefetch(sq_at(&qp->sq, qp->sq.tail), 1); /* the program may be about to answer */
	if (unlikely(!recv || !fast_store(qp, p, recv, is_common)))
		return false;
	cqe = cqe_of_message(qp, p, recv->wr_id, is_common ? qp->rq.head : fast_position(qp), has_imm, is_write);
	responder_took(&qp->resp, p, packets, IS_FIRST | IS_LAST);
	qp->req.peer_spoke = true;
	if (is_common)
		qp->rq.head++;
	else
		fast_finish_receive(qp);
	complete(qp, qp->recv_cq, poller, &qp->rq.reclaimed, cqe);
	receives_taken(&qp->rq);
	return true;
}

static __attribute__((noinline)) bool fast_take_rare(struct qp *qp, const struct packet *p, struct cq_poller *poller)
{
	return fast_take_any(qp, p, poller, false);
}

/* Takes a request that begins and ends a message. */
static inline bool fast_take(struct qp *qp, const struct packet *p, struct cq_poller *poller)
{
	return fast_take_is_common(qp, p) ? fast_take_any(qp, p, poller, true) : fast_take_rare(qp, p, poller);
}

static inline bool fast_receive_rc(struct qp *qp, const struct packet *p, uint64_t now, struct cq_poller *poller)
{
	if (p->opcode == OP_ACKNOWLEDGE)
		return (p->syndrome & SYNDROME_KIND) == SYNDROME_ACK && fast_acknowledge(qp, p->psn, now, poller);
	return (p->opcode == OP_SEND_ONLY || p->opcode == OP_SEND_ONLY_IMM || p->opcode == OP_WRITE_ONLY_IMM) &&
	       fast_may_take(qp, p) && fast_take(qp, p, poller);
}

/* fast_store() for a datagram. */
static bool fast_store_datagram(struct qp *qp, const struct packet *p, const union ibv_gid *from,
				const struct rwqe *recv)
{
	uint32_t length = GRH_BYTES + p->length;
	struct mr *mr;
	char *to;
	bool ok;

	if (unlikely(length > recv->length || recv->num_sge != 1))
		return false;
	mr = fast_find_memory(qp, qp->pd, recv->sge, length);
	if (unlikely(!mr))
		return false;
	to = mr_at(mr, recv->sge->addr);
	ok = fault_store(to, grh_keep(&qp->resp.grh, p, from->raw), GRH_BYTES) &&
	     fault_store(to + GRH_BYTES, p->payload, p->length);
	mr_put(mr);
	return ok;
}

/* Takes a datagram. With an SRQ the slow path does: a credit is used up once, with or without a receive. */
static bool fast_receive_ud(struct qp *qp, const struct packet *p, const union ibv_gid *from, struct cq_poller *poller)
{
	bool has_imm = p->opcode != (TRANSPORT_UD | OP_SEND_ONLY);
	struct responder *r = &qp->resp;
	const struct rwqe *recv;
	struct cqe cqe;

	if (unlikely(has_imm && p->opcode != (TRANSPORT_UD | OP_SEND_ONLY_IMM)) ||
	    unlikely(p->qkey != qp->attr.qkey || r->has_recv) || unlikely(qp->srq || qp->rq.head == qp->rq.tail))
		return false;
	recv = rq_at(&qp->rq, qp->rq.head);
	if (unlikely(!fast_store_datagram(qp, p, from, recv)))
		return false;
	rq_use_credit(&qp->rq, flow_credit(qp, p->src_qpn, from));
	cqe = cqe_received(qp, recv->wr_id, qp->rq.head, GRH_BYTES + p->length);
	cqe.imm = has_imm ? p->imm : 0;
	cqe.src_qp = p->src_qpn;
	cqe.flags = has_imm ? IBV_WC_GRH | IBV_WC_WITH_IMM : IBV_WC_GRH;
	cqe.marks = (uint8_t)((p->solicited ? CQE_SOLICITED : 0) | r->grh.kind * CQE_SL);
	if (hooks_any())
		cqe.status = fast_hooks(qp, p, cqe);
	qp->rq.head++;
	complete(qp, qp->recv_cq, poller, &qp->rq.reclaimed, cqe);
	return true;
}

/* True if the packet is of the one partition: IBTA 9.6.1. Both paths check this first. */
static inline bool is_for_partition(const struct packet *p)
{
	return (p->pkey & 0x7fff) == (PKEY_DEFAULT & 0x7fff);
}

static bool from_peer(const struct qp *qp, const union ibv_gid *from)
{
	return !memcmp(from, &qp->path.dgid, sizeof(*from));
}

/* True if the state lets the fast path receive. An end that only receives may stay in RTR: it may once COMM_EST has
 * been reported. */
static inline bool fast_may_receive(const struct qp *qp)
{
	return likely(qp->state == IBV_QPS_RTS || (qp->state == IBV_QPS_RTR && qp->comm_est));
}

/* The fast path. UNTIMED: by a local peer's ring, whose packets are the peer's, and of the one partition. A packet with
 * a time for a QP that uses a ring is late, or was declined before. */
static inline bool fast_receive(struct qp *qp, const struct packet *p, const union ibv_gid *from, uint64_t now,
				struct cq_poller *poller)
{
	if (unlikely(!fast_may_receive(qp) || TRANSPORT(p->opcode) != qp->transport))
		return false;
	if (qp->transport != TRANSPORT_RC)
		return qp->transport == TRANSPORT_UD && now == UNTIMED && fast_receive_ud(qp, p, from, poller);
	if (now != UNTIMED &&
	    (qp->req.lossless || !from_peer(qp, from) || !is_for_partition(p) || p->length > qp->mtu || p->fecn ||
	     p->congestion || p->is_uroce > qp->resp.peer_is_uroce || qp->resp.early))
		return false;
	return fast_receive_rc(qp, p, now, poller);
}

/* ---- messages that are delivered ---- */

/* Stores the bytes that a record has carried. A receive that peers see has one piece; of any other the peer is broken,
 * and stores no more than anybody may. */
static bool store_carried(struct qp *qp, const struct packet *p, const struct rwqe *recv)
{
	return (likely(recv->num_sge == 1) && fast_store_send(qp, p, recv->sge, false)) ||
	       sge_scatter(qp->hca, receive_pd(qp), recv->sge, recv->num_sge, 0, p->payload, p->length);
}

/* The receive cannot take its message, which is done for its sender. */
static __attribute__((cold, noinline)) void fail_carried(struct qp *qp, const struct packet *p)
{
	qp->resp.received = p->length;
	cause_refusal(qp, p, BAD_RECEIVE);
	fail_receive(qp, IBV_WC_LOC_PROT_ERR, p);
	if (qp->state != IBV_QPS_ERR)
		fail_with_event(qp, IBV_EVENT_QP_FATAL);
}

/* Takes a message that is done for its sender: a receive of the SRQ. False: no message can be there, so the peer is
 * broken. */
static __attribute__((noinline)) bool take_claimed(struct qp *qp, const struct packet *p, struct cq_poller *poller)
{
	bool has_imm = p->opcode != OP_SEND_ONLY, is_write = has_imm && p->opcode == OP_WRITE_ONLY_IMM;
	struct rwqe *recv = p->payload ? qp->resp.recv : NULL;
	uint64_t wr_id;

	if (unlikely(qp->resp.has_recv ||
		     !srq_claimed(qp->srq, p->position, qp->index, is_write ? 0 : p->length, &wr_id, recv)))
		return false;
	trace(match, qp->base.qp_num, p->position, wr_id, p->psn.v, 0, 0);
	if (recv && !store_carried(qp, p, recv)) {
		qp->resp.has_recv = true;
		qp->resp.recv_position = p->position;
		fail_carried(qp, p);
		return true;
	}
	qp->req.peer_spoke = true;
	qp->rq.psns++;
	if (recv)
		receives_stored(&qp->rq);
	complete(qp, qp->recv_cq, poller, &qp->rq.reclaimed,
		 cqe_of_message(qp, p, wr_id, p->position, has_imm, is_write));
	return true;
}

/* The same for a receive of the QP. */
static inline __attribute__((always_inline)) bool take_delivered(struct qp *qp, const struct packet *p,
								 struct cq_poller *poller)
{
	bool has_imm = p->opcode != OP_SEND_ONLY, is_write = has_imm && p->opcode == OP_WRITE_ONLY_IMM;
	struct rq *rq = &qp->rq;
	const struct rwqe *recv = rq_at(rq, rq->head);
	struct cqe cqe;

	__builtin_prefetch(sq_at(&qp->sq, qp->sq.tail), 1); /* the program may be about to answer */
	if (unlikely(p->position != rq->head || rq->head == rq->tail || (p->length > recv->length && !is_write) ||
		     qp->resp.has_recv || qp->srq))
		return qp->srq && take_claimed(qp, p, poller);
	if (unlikely(p->payload) && !store_carried(qp, p, recv)) {
		take_receive(qp, p);
		fail_carried(qp, p);
		return true;
	}
	cqe = cqe_of_message(qp, p, recv->wr_id, rq->head, has_imm, is_write);
	qp->req.peer_spoke = true;
	rq->head++;
	rq->psns++;
	if (unlikely(p->payload))
		receives_stored(rq);
	complete(qp, qp->recv_cq, poller, &rq->reclaimed, cqe);
	receives_taken(rq);
	return true;
}

/* The same in the states in which the fast path declines. */
static void receive_delivered(struct qp *qp, const struct packet *p) REQUIRES(qp->lock)
{
	if (!qp_is_receiving(qp) && !qp->rq.settling)
		return;
	if (!take_delivered(qp, p, NULL) && qp->state != IBV_QPS_ERR) {
		cause_set(qp, CAUSE_OUT_OF_SEQUENCE);
		fail_with_event(qp, IBV_EVENT_QP_FATAL);
	}
}

bool engine_receive_delivered(struct qp *qp, const struct packet *p, struct cq_poller *poller)
{
	bool taken;

	if (unlikely(qp->transport != TRANSPORT_RC))
		return true; /* it cannot be for this QP */
	taken = fast_may_receive(qp) && take_delivered(qp, p, poller);
	if (unlikely(!taken))
		receive_delivered(qp, p);
	if (unlikely(qp->cq_lost))
		settle_overrun(qp);
	return taken;
}

/* ---- the slow path ---- */

/* True if the PSN shows that the packet is the peer's: of the next request, or of an answer to a packet in flight. A
 * stranger who forges the peer's address knows neither. */
static bool is_in_sequence(const struct qp *qp, const struct packet *p)
{
	if (opcode_info[p->opcode].flags & IS_REQUEST)
		return psn_equal(p->psn, qp->resp.expected);
	return p->opcode != OPCODE_ANSWER_AGAIN && psn_is_between(p->psn, qp->req.una, qp->req.high);
}

static void receive_request(struct qp *qp, const struct packet *p, uint64_t now) REQUIRES(qp->lock)
{
	if (unlikely(qp->base.qp_type == IBV_QPT_XRC_SEND))
		return; /* the packet only asks */
	if (qp->state == IBV_QPS_RTR && !qp->comm_est && (is_in_sequence(qp, p) || !is_reliable(qp))) {
		qp->comm_est = true;
		qp->hca->ops->qp_event(qp, IBV_EVENT_COMM_EST);
		qp_show(qp);
	}
	if (likely(is_reliable(qp)))
		responder_receive(qp, p, now);
	else
		uc_receive(qp, p);
}

bool engine_admits(const struct qp *qp, const struct packet *p, const union ibv_gid *from)
{
	return qp_is_receiving(qp) && is_for_partition(p) && TRANSPORT(p->opcode) == qp->transport &&
	       from_peer(qp, from);
}

/* Takes packets of the extensions between two uroce. */
static void receive_extension(struct qp *qp, const struct packet *p, bool sends, uint64_t now) REQUIRES(qp->lock)
{
	if (p->opcode == OPCODE_ANSWER_AGAIN)
		kept_asked(qp, p);
	else if (p->opcode == OPCODE_SELECTIVE_ACK && sends)
		completer_selective(qp, p, now);
	else if (p->opcode == OPCODE_ANSWERED_AGAIN && sends)
		completer_answered_again(qp, p, now);
}

static __attribute__((noinline)) void slow_receive(struct qp *qp, const struct packet *p, const union ibv_gid *from,
						   uint64_t now) REQUIRES(qp->lock)
{
	uint32_t flags = opcode_info[p->opcode].flags;
	bool sends = qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD, is_peer;

	/* IBTA 9.6.1: state, partition, transport and peer; the rest is not for this QP */
	if (!qp_is_receiving(qp) || !is_for_partition(p))
		return;
	is_peer = from_peer(qp, from);
	if (p->is_uroce && !qp->resp.peer_is_uroce && qp->transport == TRANSPORT_RC && is_peer && is_in_sequence(qp, p))
		qp->resp.peer_is_uroce = true;
	if (unlikely(TRANSPORT(p->opcode) != qp->transport)) {
		if (p->opcode == OPCODE_CREDIT_GRANT && qp->flow && sends && (qp->transport == TRANSPORT_UD || is_peer))
			flow_granted(qp, p, from);
		else if (p->opcode == OPCODE_CNP && is_peer)
			completer_congested(qp, p->psn);
		else if (is_peer && qp->resp.peer_is_uroce)
			receive_extension(qp, p, sends, now);
		settle_drain(qp);
		return;
	}
	if (qp->transport == TRANSPORT_UD)
		ud_receive(qp, p, from);
	else if (!is_peer)
		return;
	else if (flags & IS_REQUEST)
		receive_request(qp, p, now);
	else if (sends)
		completer_receive(qp, p, now);
	settle_drain(qp);
}

bool engine_receive_at(struct qp *qp, const struct packet *p, const union ibv_gid *from, uint64_t now,
		       struct cq_poller *poller)
{
	bool fast = fast_receive(qp, p, from, now, poller);

	if (!fast && now != UNTIMED)
		slow_receive(qp, p, from, now);
	if (unlikely(qp->cq_lost))
		settle_overrun(qp);
	return fast;
}
