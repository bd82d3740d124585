/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts of the device that `uroce check --through` names: their operations become ours. */
#ifndef UROCE_THROUGH_CONTEXT_H
#define UROCE_THROUGH_CONTEXT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Whether anything is looked at. */
bool through_checks(void);
/* Replaces the operations of the context, if its device is followed. */
void through_take(struct ibv_context *context);

#endif
