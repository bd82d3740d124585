/* SPDX-License-Identifier: BSD-2-Clause */
/* The lane of a QP: how a request that is posted while the QP is idle may be sent. Set here, whenever the state, the
 * link, the rules of fault injection or the reach of the peer's memory have changed. With qp->lock. */
#ifndef UROCE_ENGINE_LANE_H
#define UROCE_ENGINE_LANE_H

#include "object/qp.h"

/* Sets qp->lane and qp->needs_packets. */
void engine_set_lane(struct qp *qp);
/* Changes the state, and with it the lane. */
void engine_set_state(struct qp *qp, enum ibv_qp_state state);

#endif
