/* SPDX-License-Identifier: BSD-2-Clause */
/* Which hazard counter of the tables of local peers (share.h) a thread of this process uses, while it is inside of an
 * access. */
#ifndef UROCE_MEMORY_INSIDE_H
#define UROCE_MEMORY_INSIDE_H

#include <stdint.h>

/* Number of the thread's hazard counter, from 1. 0: none yet; NO_HAZARD: none left. */
#define NO_HAZARD UINT32_MAX
extern _Thread_local uint32_t hazard_number;

/* Gives the thread a hazard counter, until it ends. */
uint32_t hazard_take(void);

#endif
