/* SPDX-License-Identifier: BSD-2-Clause */
/* engine_run(), where all packets are made. Received packets: receive.c. */
#include <string.h>

#include "base/trace.h"
#include "engine/internal.h"
#include "object/show.h"

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
	if (qp->state != IBV_QPS_ERR && !faults_settle(qp))
		fail_overrun(qp);
}

void settle_drain(struct qp *qp)
{
	if (qp->state != IBV_QPS_SQD || qp->sqd_notified || engine_in_flight(qp))
		return;
	qp->sqd_notified = true;
	qp->attr.sq_draining = 0;
	if (qp->attr.en_sqd_async_notify)
		qp->hca->ops->qp_event(qp, IBV_EVENT_SQ_DRAINED);
}

void engine_resume(struct qp *qp, psn_t psn, uint32_t msn)
{
	struct responder *r = &qp->resp;

	r->expected = psn;
	r->ack_psn = psn_add(psn, -1u);
	r->msn = msn;
	r->inbound = INBOUND_NONE;
	r->nak_sent = false;
	r->nak = 0;
}

bool engine_rests(const struct qp *qp)
{
	const struct responder *r = &qp->resp;

	/* not after a NAK either: the packets that it asked for may be for the process to which the responder moves */
	return r->inbound == INBOUND_NONE && !r->response_count && !r->nak;
}

void engine_ask_from(struct qp *qp, psn_t psn)
{
	qp->resp.nak = NAK_SEQUENCE;
	qp->resp.nak_psn = psn;
}

void engine_fail_with(struct qp *qp, enum ibv_event_type event)
{
	if (qp->state != IBV_QPS_ERR)
		fail_with_event(qp, event);
}

static const struct packet ack_alone = {.opcode = OP_ACKNOWLEDGE};

/* Whether these packets and an ACK can be one train that ends with the ACK: then the receiver reads the ACK first
 * (link/udp_receive.c). */
static bool make_a_train(const struct tx *tx, uint32_t count, uint32_t ack)
{
	uint32_t bytes = packet_bytes(&tx->packet);
	bool equal = true;

	for (uint32_t i = 1; i < count; i++)
		equal &= packet_bytes(&tx[i].packet) == bytes;
	return equal && bytes >= ack && count < BATCH_TRAINS && count * bytes <= TRAIN;
}

/* The peer must not see what this end does next before the ACK of what it has received, as with adapters, unless
 * the order is known not to matter. */
static void put_ack_first(const struct qp *qp, struct tx_batch *batch, uint32_t first, uint32_t ack)
{
	struct tx *tx = &batch->tx[first], last;

	if (ack == first || qp->answers_first || make_a_train(tx, ack - first, packet_bytes(&batch->tx[ack].packet)))
		return;
	last = batch->tx[ack];
	memmove(tx + 1, tx, (ack - first) * sizeof(*tx));
	*tx = last;
}

bool engine_run(struct qp *qp, struct tx_batch *batch)
{
	bool more, delay = batch->delay_ack;
	uint32_t first, ack;

	batch->full = false;
	if (unlikely(!is_reliable(qp))) {
		more = unreliable_run(qp, batch);
		settle_overrun(qp);
		settle_drain(qp);
		return more && (!batch->full || batch->packets);
	}
	more = responder_run(qp, batch);
	first = batch->packets;
	more = requester_run(qp, batch) || more;
	ack = batch->packets;
	/* an ACK that may wait leaves now if it costs no datagram of its own */
	if (qp->answers_first && ack > first && make_a_train(&batch->tx[first], ack - first, packet_bytes(&ack_alone)))
		batch->delay_ack = false;
	more = responder_acknowledge(qp, batch) || more;
	batch->delay_ack = delay;
	if (batch->packets > ack)
		put_ack_first(qp, batch, first, ack);
	settle_overrun(qp);
	return more && !batch->full;
}

void engine_unreadable(struct qp *qp, const struct tx *tx)
{
	if (qp->state == IBV_QPS_ERR)
		return;
	if (opcode_info[tx->packet.opcode].flags & IS_REQUEST)
		requester_unreadable(qp, tx->position);
	else
		responder_unreadable(qp, tx->packet.psn);
	settle_overrun(qp);
}

bool engine_has_work(const struct qp *qp, bool delay_ack)
{
	return is_reliable(qp) ? responder_has_work(qp, delay_ack) || requester_can_run(qp) : unreliable_can_run(qp);
}

bool engine_in_flight(const struct qp *qp)
{
	/* packets that are sent and not acknowledged; for UC and UD, packets that are made and not known to be sent */
	return qp->req.una.v != qp->req.high.v || (!is_reliable(qp) && (qp->sq.head != qp->req.wqe || qp->req.packet));
}

bool engine_awaits_answer(const struct qp *qp)
{
	return psn_diff(qp->req.asked, qp->req.una) > 0;
}

uint32_t engine_backlog(struct qp *qp, uint32_t enough)
{
	uint32_t from = qp->req.wqe, tail = qp->sq.tail;

	if (qp->backlog.from != from || (int32_t)(tail - qp->backlog.to) < 0) {
		qp->backlog.from = qp->backlog.to = from;
		qp->backlog.charge = 0;
	}
	for (; qp->backlog.to != tail && qp->backlog.charge < enough; qp->backlog.to++)
		qp->backlog.charge += min_of(sq_at(&qp->sq, qp->backlog.to)->length, enough) + PACKET_OVERHEAD;
	return qp->backlog.charge;
}
