/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock of all deadlines: CLOCK_MONOTONIC. */
#ifndef UROCE_CLOCK_H
#define UROCE_CLOCK_H

#include <time.h>

#include "base/base.h"

static inline uint64_t clock_read(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}

/* The time in ns. */
static inline uint64_t clock_now(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

/* ns since 1970: only for people and other hosts. */
static inline uint64_t clock_wall(void)
{
	return clock_read(CLOCK_REALTIME);
}

#endif
