/* SPDX-License-Identifier: BSD-2-Clause */
/* The alternate path of a QP, and how it changes places with the one in use (IBTA 17.2.8), when migration.c says so or
 * no retry is left. With qp->lock. */
#ifndef UROCE_ENGINE_ALTERNATE_H
#define UROCE_ENGINE_ALTERNATE_H

#include "object/qp.h"

enum migration_reason { BY_PROGRAM, BY_PACKET, BY_RETRIES };

/* Migrates, as no retry is left on this path. False: there is no alternate path. */
bool migration_rescues(struct qp *qp);
/* Changes the migration state. */
void migration_enter(struct qp *qp, enum ibv_mig_state state, enum migration_reason reason);
/* Switches to the alternate path, and forgets round trips of the other one. */
void migration_switch(struct qp *qp, enum migration_reason reason);

#endif
