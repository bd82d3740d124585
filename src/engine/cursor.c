/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/cursor.h"

#include "engine/engine.h"

void settle_drain(struct qp *qp)
{
	if (qp->state != IBV_QPS_SQD || qp->sqd_notified || engine_in_flight(qp))
		return;
	qp->sqd_notified = true;
	qp->attr.sq_draining = 0;
	if (qp->attr.en_sqd_async_notify)
		qp->hca->ops->qp_event(qp, IBV_EVENT_SQ_DRAINED);
}

bool engine_in_flight(const struct qp *qp)
{
	/* Packets that are sent and not acknowledged; for UC and UD, packets that are made and not known to be sent. */
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
