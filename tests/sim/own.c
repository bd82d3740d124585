/* SPDX-License-Identifier: BSD-2-Clause */
#include "own.h"

#include <stdlib.h>

volatile unsigned own_depth;

void *own(void *old, size_t size)
{
	void *p;

	own_depth++;
	p = realloc(old, size);
	own_depth--;
	if (!p)
		abort();
	return p;
}

void *own_aligned(size_t size)
{
	void *p;

	own_depth++;
	p = aligned_alloc(64, (size + 63) & ~(size_t)63);
	own_depth--;
	if (!p)
		abort();
	return p;
}
