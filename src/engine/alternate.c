/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/alternate.h"

#include "base/trace.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "engine/timers.h"

void migration_enter(struct qp *qp, enum ibv_mig_state state, enum migration_reason reason)
{
	qp->attr.path_mig_state = state;
	trace(migrate, qp->base.qp_num, state, reason, qp->req.una.v, 0, 0);
	engine_set_lane(qp);
	qp_show(qp);
}

#define SWAP(a, b)                         \
	do {                               \
		__typeof__(a) swapped = a; \
		a = b;                     \
		b = swapped;               \
	} while (0)

NO_LOCK_ANALYSIS void migration_switch(struct qp *qp, enum migration_reason reason)
{
	struct requester *r = &qp->req;
	struct ibv_qp_attr *a = &qp->attr;

	SWAP(qp->path, qp->alternate);
	SWAP(a->ah_attr, a->alt_ah_attr);
	SWAP(a->timeout, a->alt_timeout);
	retry_set_intervals(qp);
	r->retries = a->retry_cnt;
	r->srtt = r->rttvar = r->rtt = r->least_rtt = 0;
	if (qp->path.local_peer != qp->alternate.local_peer)
		engine_reach(qp, NULL);
	reach_anew(&qp->reach_pair, engine_pair(qp));
	migration_enter(qp, IBV_MIG_MIGRATED, reason);
}

bool migration_rescues(struct qp *qp)
{
	if (qp->attr.path_mig_state != IBV_MIG_ARMED)
		return false;
	migration_switch(qp, BY_RETRIES);
	qp->hca->ops->qp_event(qp, IBV_EVENT_PATH_MIG);
	return true;
}
