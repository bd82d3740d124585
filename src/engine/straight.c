/* SPDX-License-Identifier: BSD-2-Clause */
/* the fast path of SENDs, WRITEs with immediate and datagrams between local peers: see engine.h. Where an ordinary one
 * goes through post.c, requester.c and tx_batch.c, and through responder.c and complete.c, this does what all of these come
 * to when there is nothing else to see to. What is left behind is the same: a WQE that can be sent again, PSNs, timers,
 * what is owed to the peer. */
#include <string.h>

#include "base/trace.h"
#include "engine/straight.h"
#include "wire/grh.h"

/* ---- the requester: what straight.h does not do inline ---- */

static uint64_t straight_length_of(const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

bool straight_gather(struct qp *qp, const struct ibv_send_wr *wr, uint32_t most, uint32_t *length, char *to)
{
	*length = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > most - *length)
			return false;
		if (!sge->length) /* as in post.c */
			continue;
		if (wr->send_flags & IBV_SEND_INLINE)
			memcpy(to + *length, (const void *)(uintptr_t)sge->addr, sge->length);
		else if (!straight_copy(qp, sge, to + *length))
			return false;
		*length += sge->length;
	}
	return true;
}

/* Where the payload lies: onesided.c. Less than 0: nobody may read it there. */
static int refer(struct qp *qp, struct wqe *w, char *payload)
{
	int pieces = 0;

	if (w->num_sge * sizeof(struct packet_piece) > STRAIGHT_MOST ||
	    !sge_allowed(qp->hca, qp->pd, w->sge, w->num_sge, 0))
		return -1;
	for (uint32_t i = 0; i < w->num_sge; i++) {
		struct packet_piece piece = {w->sge[i].addr, w->sge[i].length, w->sge[i].lkey};

		if (piece.length)
			memcpy(payload + pieces++ * sizeof(piece), &piece, sizeof(piece));
	}
	w->by_reference = true;
	w->packets = wqe_packets(qp, w);
	return pieces;
}

int straight_put(struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr, char *payload)
{
	uint32_t most = min_of(qp->req.mtu, (uint32_t)STRAIGHT_MOST);
	uint64_t length = straight_length_of(wr);

	w->num_sge = 0;
	w->packets = 1;
	w->by_reference = false;
	w->length = (uint32_t)length;
	if (length > REFERENCE_CHUNK)
		return -1;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (!straight_gather(qp, wr, min_of(most, qp->sq.max_inline), &w->length, payload))
			return -1;
		memcpy(w->sge, payload, w->length);
		return 0;
	}
	for (int i = 0; i < wr->num_sge; i++)
		w->sge[i] = wr->sg_list[i];
	w->num_sge = (uint8_t)wr->num_sge;
	if (onesided_refers(qp, w))
		return refer(qp, w, payload);
	return straight_gather(qp, wr, most, &w->length, payload) ? 0 : -1;
}

void engine_sent_datagrams(struct qp *qp, const struct ibv_send_wr *wr)
{
	for (; qp->sq.head != qp->sq.tail; wr = wr->next) {
		qp->sq.head++;
		if (qp->sig_all || (wr->send_flags & IBV_SEND_SIGNALED))
			complete_at_once(qp, wr, (uint32_t)straight_length_of(wr));
	}
	if (unlikely(qp->cq_lost))
		settle_overrun(qp);
}

/* ---- the completer ---- */

/* complete_head() of a success, where somebody polls. */
static inline void complete_head_to(struct qp *qp, struct wqe *w, struct cq_poller *poller)
{
	w->state = WQE_COMPLETED;
	if (unlikely(w->opcode == IBV_WR_RDMA_WRITE))
		requester_proved(qp, w);
	qp->req.acked = 0;
	if (qp->sig_all || (w->flags & IBV_SEND_SIGNALED))
		complete_to(qp, qp->send_cq, poller, &qp->sq.reclaimed, qp->sq.head++, w->wr_id,
			    opcode_when_complete[w->opcode], w->length, 0, 0, 0, 0, false);
	else
		qp->sq.head++;
}

/* Those up to `psn` are acknowledged, if each is a whole message that nothing is known to be wrong with. `now`: 0
 * between local peers. False: there is more to it; the usual way goes on from there. */
static bool straight_acknowledge(struct qp *qp, psn_t psn, uint64_t now, struct cq_poller *poller)
{
	struct requester *r = &qp->req;
	struct sq *sq = &qp->sq;
	uint32_t charge;
	struct wqe *w;

	if (unlikely(qp->state != IBV_QPS_RTS || r->lossless == !!now || r->rd_count || r->next.v != r->high.v ||
		     psn_diff(psn, r->una) < 0 || psn_diff(r->next, psn) <= 0))
		return false;
	do {
		w = sq_at(sq, sq->head);
		if (unlikely(!w->packets || r->acked || psn_diff(psn, r->una) < (int32_t)w->packets - 1))
			return false;
		r->una = psn_add(r->una, w->packets);
		charge = w->length + w->packets * PACKET_OVERHEAD; /* wqe_charge() */
		r->flight -= min_of(r->flight, charge);
		if (now)
			grow_window(r, charge);
		complete_head_to(qp, w, poller);
	} while (psn_diff(psn, r->una) >= 0);
	if (now)
		note_progress(qp, now);
	else
		note_moved(qp);
	if (sq->head != sq->tail) {
		complete_local(qp);
		completer_settle(qp);
	}
	return likely(qp->state == IBV_QPS_RTS);
}

/* ---- the responder ---- */

/* Who traces wants to see all. In RTR too, in which an end that only receives may stay, when that has been told of. */
static bool straight_may_receive(const struct qp *qp)
{
	return likely(qp->state == IBV_QPS_RTS || (qp->state == IBV_QPS_RTR && qp->comm_est)) && !trace_on;
}

/* The next message, as a whole. */
static bool may_take(const struct qp *qp, const struct packet *p)
{
	const struct responder *r = &qp->resp;

	return p->pieces <= 1 && p->psn.v == r->expected.v && r->inbound == INBOUND_NONE && !r->has_recv;
}

/* The receive for it. NULL: none, or it is something else. One of an SRQ is the QP's from then on, and stays it when
 * the usual way goes on, which would take it next: so that is for SENDs alone, of which nothing else is checked before.
 */
static const struct rwqe *find_receive(struct qp *qp, const struct packet *p)
{
	if (!qp->srq)
		return qp->rq.head != qp->rq.tail ? rq_at(&qp->rq, qp->rq.head) : NULL;
	if (p->opcode == OP_WRITE_ONLY_IMM)
		return NULL;
	return take_receive(qp, p) ? qp->resp.recv : NULL;
}

/* It is used up: its position. */
static uint32_t finish_receive(struct qp *qp)
{
	if (!qp->srq)
		return qp->rq.head++;
	qp->resp.has_recv = false;
	return qp->resp.recv_position;
}

static bool store_write(const struct qp *qp, const struct packet *p)
{
	struct mr *mr;
	char *at;
	bool ok;

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) || p->length != p->dma_length)
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

/* Where so many bytes may be stored. NULL: the usual way knows why not, or how. */
static inline struct mr *find_memory(struct qp *qp, const struct ibv_sge *sge, uint32_t length)
{
	struct mr *mr = sge_region_again(qp->hca, &qp->rq.last, receive_pd(qp), sge, length, IBV_ACCESS_LOCAL_WRITE);

	if (likely(!mr || !mr_is_indirect(mr)))
		return mr;
	mr_put(mr);
	return NULL;
}

static inline bool store_send(struct qp *qp, const struct packet *p, const struct ibv_sge *sge)
{
	struct mr *mr = find_memory(qp, sge, p->length);
	bool ok;

	if (unlikely(!mr))
		return false;
	if (unlikely(p->pieces))
		ok = onesided_fetch_piece(qp, (const struct packet_piece *)p->payload, mr_at(mr, sge->addr));
	else
		ok = fault_store(mr_at(mr, sge->addr), p->payload, p->length);
	mr_put(mr);
	return ok;
}

/* Its bytes to where they belong. False: that cannot be: the usual way knows why. */
static bool straight_store(struct qp *qp, const struct packet *p, const struct rwqe *recv)
{
	if (unlikely(p->opcode == OP_WRITE_ONLY_IMM))
		return store_write(qp, p);
	if (unlikely(p->length > recv->length))
		return false;
	if (likely(recv->num_sge == 1 && p->length))
		return store_send(qp, p, recv->sge);
	return !p->pieces && sge_scatter(qp->hca, receive_pd(qp), recv->sge, recv->num_sge, 0, p->payload, p->length);
}

/* A request that begins and ends a message. */
static bool straight_take(struct qp *qp, const struct packet *p, struct cq_poller *poller)
{
	bool has_imm = p->opcode != OP_SEND_ONLY;
	struct responder *r = &qp->resp;
	const struct rwqe *recv;

	recv = find_receive(qp, p);
	__builtin_prefetch(sq_at(&qp->sq, qp->sq.tail), 1); /* whoever takes this may be about to answer */
	if (unlikely(!recv || !straight_store(qp, p, recv)))
		return false;
	r->ack_psn = psn_add(r->expected, p->pieces ? packets_of(p->mtu, p->length) - 1 : 0);
	r->expected = psn_add(r->ack_psn, 1);
	r->msn = (r->msn + 1) & PSN_MASK;
	r->nak_sent = false;
	r->nak = 0;
	r->starves = false;
	r->look_at = 0;
	r->unacked++;
	r->ack_owed = true;
	r->ack_asked |= p->ack_request;
	qp->req.peer_spoke = true;
	complete_to(qp, qp->recv_cq, poller, &qp->rq.reclaimed, finish_receive(qp), recv->wr_id,
		    p->opcode == OP_WRITE_ONLY_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, p->length,
		    has_imm ? p->imm : 0, qp->attr.dest_qp_num, has_imm ? IBV_WC_WITH_IMM : 0, 0, p->solicited);
	return true;
}

static inline bool receive_reliable(struct qp *qp, const struct packet *p, uint64_t now, struct cq_poller *poller)
{
	if (p->opcode == OP_ACKNOWLEDGE)
		return (p->syndrome & SYNDROME_KIND) == SYNDROME_ACK && straight_acknowledge(qp, p->psn, now, poller);
	return (p->opcode == OP_SEND_ONLY || p->opcode == OP_SEND_ONLY_IMM || p->opcode == OP_WRITE_ONLY_IMM) &&
	       may_take(qp, p) && (!p->acknowledges || straight_acknowledge(qp, p->acknowledged, now, poller)) &&
	       straight_take(qp, p, poller);
}

/* As straight_store(). */
static bool store_datagram(struct qp *qp, const struct packet *p, const union ibv_gid *from, const struct rwqe *recv)
{
	uint32_t length = GRH_BYTES + p->length;
	struct mr *mr;
	char *to;
	bool ok;

	if (unlikely(length > recv->length || recv->num_sge != 1))
		return false;
	mr = find_memory(qp, recv->sge, length);
	if (unlikely(!mr))
		return false;
	to = mr_at(mr, recv->sge->addr);
	ok = fault_store(to, grh_keep(&qp->resp.grh, p, from->raw), GRH_BYTES) &&
	     fault_store(to + GRH_BYTES, p->payload, p->length);
	mr_put(mr);
	return ok;
}

/* One of an SRQ goes the usual way: whoever has been granted one uses that up, whether there is one or not, and once.
 */
static bool receive_datagram(struct qp *qp, const struct packet *p, const union ibv_gid *from, struct cq_poller *poller)
{
	bool has_imm = p->opcode != (TRANSPORT_UD | OP_SEND_ONLY);
	struct responder *r = &qp->resp;
	const struct rwqe *recv;

	if (unlikely(has_imm && p->opcode != (TRANSPORT_UD | OP_SEND_ONLY_IMM)) ||
	    unlikely(p->qkey != qp->attr.qkey || r->has_recv) || unlikely(qp->srq || qp->rq.head == qp->rq.tail))
		return false;
	recv = rq_at(&qp->rq, qp->rq.head);
	if (unlikely(!store_datagram(qp, p, from, recv)))
		return false;
	rq_use_credit(&qp->rq, flow_credit(qp, p->src_qpn, from));
	complete_to(qp, qp->recv_cq, poller, &qp->rq.reclaimed, qp->rq.head++, recv->wr_id, IBV_WC_RECV,
		    GRH_BYTES + p->length, has_imm ? p->imm : 0, p->src_qpn,
		    has_imm ? IBV_WC_GRH | IBV_WC_WITH_IMM : IBV_WC_GRH, r->grh.kind, p->solicited);
	return true;
}

bool engine_receive_straight(struct qp *qp, const struct packet *p, const union ibv_gid *from, struct cq_poller *poller)
{
	bool taken;

	if (unlikely(!straight_may_receive(qp)))
		return false;
	if (qp->transport == TRANSPORT_UD)
		taken = receive_datagram(qp, p, from, poller);
	else
		taken = qp->transport == TRANSPORT_RC && receive_reliable(qp, p, 0, poller);
	if (unlikely(qp->cq_lost))
		settle_overrun(qp);
	return taken;
}

bool engine_receive_short(struct qp *qp, const struct packet *p, const union ibv_gid *from, uint64_t now,
			  struct cq_poller *poller)
{
	bool taken;

	if (qp->transport != TRANSPORT_RC || unlikely(!straight_may_receive(qp)) || p->length > qp->mtu || p->fecn ||
	    p->congestion || (p->pkey & 0x7fff) != (PKEY_DEFAULT & 0x7fff) ||
	    memcmp(from, &qp->path.dgid, sizeof(*from)))
		return false;
	taken = receive_reliable(qp, p, now, poller);
	if (unlikely(qp->cq_lost))
		settle_overrun(qp);
	return taken;
}
