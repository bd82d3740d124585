/* SPDX-License-Identifier: BSD-2-Clause */
/* All device memory of this process. */
#ifndef UROCE_VERBS_DM_H
#define UROCE_VERBS_DM_H

#include "base/lock.h"

extern struct lock dms_lock; /* guards the list */

#endif
