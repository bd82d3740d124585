/* SPDX-License-Identifier: BSD-2-Clause */
/* All protection domains of this process. */
#ifndef UROCE_VERBS_PD_H
#define UROCE_VERBS_PD_H

#include "object/pd.h"
#include "base/lock.h"

extern struct lock pds_lock; /* guards the list */

/* Calls use() for each PD, with pds_lock held. */
void pds_each(void (*use)(struct pd *pd, void *arg), void *arg);

#endif
