/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/lane.h"

#include "base/trace.h"
#include "engine/engine.h"
#include "engine/hooks.h"

void engine_set_lane(struct qp *qp)
{
	qp->needs_packets = hooks_any() && (qp_is_guarded(qp) || faults_want_packets(qp));
	if (qp->state != IBV_QPS_RTS || (qp->transport != TRANSPORT_RC && qp->transport != TRANSPORT_UD) ||
	    (hooks_any() && (qp_is_guarded(qp) || faults_touch(qp))))
		qp->lane = LANE_QUEUE;
	else if (qp->transport == TRANSPORT_UD)
		qp->lane = LANE_DATAGRAM;
	else if (!qp->req.lossless)
		qp->lane = LANE_UDP;
	else
		qp->lane = qp->reach ? LANE_MEMORY : LANE_RING;
}

void engine_set_state(struct qp *qp, enum ibv_qp_state state)
{
	if (qp->state != state)
		trace(qp_state, qp->base.qp_num, qp->state, state, 0, 0, 0);
	qp->state = qp->attr.qp_state = state;
	engine_set_lane(qp);
}

void engine_renew_lane(struct qp *qp)
{
	engine_set_lane(qp);
	qp_show(qp);
}
