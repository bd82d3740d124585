/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of ids. */
#ifndef UROCE_CM_MULTICAST_H
#define UROCE_CM_MULTICAST_H

#include "cm/id.h"

/* Leaves all groups, before the id is freed. */
void id_leave_groups(struct id *id) EXCLUDES(cm.lock);

#endif
