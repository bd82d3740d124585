/* SPDX-License-Identifier: BSD-2-Clause */
/* The alternate path of a QP, and how it changes places with the one in use (IBTA 17.2.8). What asks for it is in
 * migration.c; or no retry is left. With qp->lock. */
#ifndef UROCE_ENGINE_ALTERNATE_H
#define UROCE_ENGINE_ALTERNATE_H

#include "object/qp.h"

enum migration_reason { BY_PROGRAM, BY_PACKET, BY_RETRIES };

/* No retry is left on this path: false if there is no other one. */
bool migration_rescues(struct qp *qp);
/* The migration state changes. */
void migration_enter(struct qp *qp, enum ibv_mig_state state, enum migration_reason reason);
/* To the alternate path. What is known of round trips is of the other one. */
void migration_switch(struct qp *qp, enum migration_reason reason);

#endif
