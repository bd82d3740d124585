/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_PLURAL_H
#define UROCE_PLURAL_H

#include <stdint.h>

/* What makes an English noun the plural, for that many. */
static inline const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

#endif
