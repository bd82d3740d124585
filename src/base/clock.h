/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock of all deadlines: CLOCK_MONOTONIC. */
#ifndef UROCE_CLOCK_H
#define UROCE_CLOCK_H

#include <time.h>

#include "base/base.h"

/* ns */
static inline uint64_t clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}

#endif
