/* SPDX-License-Identifier: BSD-2-Clause */
/* Path migration (IBTA 17.2.8). MigReq in the header of a packet is clear while its sender has an alternate path in
 * REARM or ARMED, and set otherwise. REARM becomes ARMED with the first packet in which it is clear: both ends have an
 * alternate path then. ARMED becomes MIGRATED, by the alternate path, when no retry is left, when a packet comes by
 * that path in which MigReq is set, or when the program says so. The two paths change places then.
 *
 * MIGRATED is what all QPs are in that know nothing of this: for them nothing is done here. For the others
 * HOOK_MIGRATION has been set, and stays. With qp->lock. */
#ifndef UROCE_ENGINE_MIGRATION_H
#define UROCE_ENGINE_MIGRATION_H

#include "object/qp.h"

/* Checks IBV_QP_PATH_MIG_STATE: 0, or -errno with its cause. */
int migration_check(const struct qp *qp, const struct ibv_qp_attr *a, int mask);
/* Handles a migration state that the program has set. */
void migration_set(struct qp *qp, enum ibv_mig_state state, uint64_t now);

#endif
