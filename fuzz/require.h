/* SPDX-License-Identifier: BSD-2-Clause */
/* What holds for any input. */
#ifndef UROCE_FUZZ_REQUIRE_H
#define UROCE_FUZZ_REQUIRE_H

#include <stdbool.h>
#include <stdlib.h>

static inline void require(bool holds)
{
	if (!holds)
		abort();
}

#endif
