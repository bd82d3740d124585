/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/pd.h"

#include <stdlib.h>

#include "base/base.h"

void *buffer_alloc(struct pd *pd, size_t size, enum buffer_kind kind, struct pd **from)
{
	void *at = IBV_ALLOCATOR_USE_DEFAULT;

	size = (max_of(size, (size_t)1) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
	*from = pd;
	if (pd && pd->alloc)
		at = pd->alloc(&pd->base, pd->context, size, CACHE_LINE, kind);
	if (at != IBV_ALLOCATOR_USE_DEFAULT)
		return at;
	*from = NULL;
	return aligned_alloc(CACHE_LINE, size);
}

void buffer_free(void *at, enum buffer_kind kind, struct pd *from)
{
	if (!from)
		free(at);
	else if (at)
		from->free(&from->base, from->context, at, kind);
}
