/* SPDX-License-Identifier: BSD-2-Clause */
/* The lane of a QP: how a request that is posted to it while it is idle may be sent. Decided here, whenever its state,
 * its link, the rules of fault injection or what can be reached of its peer have changed. With qp->lock. */
#ifndef UROCE_ENGINE_LANE_H
#define UROCE_ENGINE_LANE_H

#include "object/qp.h"

/* Sets qp->lane and qp->needs_packets. */
void engine_set_lane(struct qp *qp);
/* The state changes, and with it the lane. */
void engine_set_state(struct qp *qp, enum ibv_qp_state state);

#endif
