/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int pool_init(struct pool *p, uint32_t object_size, uint32_t limit)
{
	uint32_t chunks = (limit + POOL_CHUNK - 1) / POOL_CHUNK;

	memset(p, 0, sizeof(*p));
	p->size = (object_size + CACHE_LINE - 1) & ~(CACHE_LINE - 1u);
	p->limit = limit;
	p->chunk = calloc(chunks, sizeof(*p->chunk));
	return p->chunk ? 0 : -ENOMEM;
}

void pool_fini(struct pool *p)
{
	uint32_t chunks = (p->limit + POOL_CHUNK - 1) / POOL_CHUNK;

	lock_assert_unshared(&p->lock);
	for (uint32_t i = 0; p->chunk && i < chunks; i++)
		free(atomic_load_explicit(&p->chunk[i], memory_order_relaxed));
	free(p->chunk);
	free(p->spare);
	memset(p, 0, sizeof(*p));
}

/* Returns the index that was freed longest ago, if enough indexes are free or all are in use or free; else a new
 * one. */
static bool take_index(struct pool *p, uint32_t *index) REQUIRES(p->lock)
{
	uint32_t spares = p->spare_tail - p->spare_head;

	/* keep freed indexes unused for a while, so that a late packet for a destroyed object does not find a new
	 * one */
	if (spares > POOL_CHUNK / 2 || (spares && p->made == p->limit)) {
		*index = p->spare[p->spare_head++ & (p->spare_size - 1)];
		return true;
	}
	if (p->made == p->limit)
		return false;
	*index = p->made++;
	return true;
}

void *pool_alloc(struct pool *p, uint32_t *index)
{
	_Atomic(char *) *chunk;
	void *object = NULL;
	char *c;

	lock_take(&p->lock);
	if (!take_index(p, index))
		goto out;
	chunk = &p->chunk[*index >> POOL_CHUNK_BITS];
	c = atomic_load_explicit(chunk, memory_order_relaxed); /* only written under the lock */
	if (!c) {
		c = aligned_alloc(CACHE_LINE, (size_t)POOL_CHUNK * p->size);
		if (!c) {
			p->made--; /* if the chunk is missing, the index is new */
			goto out;
		}
		memset(c, 0, (size_t)POOL_CHUNK * p->size);
		atomic_store_explicit(chunk, c, memory_order_release); /* pairs with pool_at() */
	}
	p->used++;
	object = c + (size_t)(*index & (POOL_CHUNK - 1)) * p->size;
out:
	lock_drop(&p->lock);
	if (!object)
		errno = ENOMEM;
	return object;
}

static bool grow_spare(struct pool *p) REQUIRES(p->lock)
{
	uint32_t n = p->spare_tail - p->spare_head, size = p->spare_size ? 2 * p->spare_size : POOL_CHUNK;
	uint32_t *spare = malloc(size * sizeof(*spare));

	if (!spare)
		return false;
	for (uint32_t i = 0; i < n; i++)
		spare[i] = p->spare[(p->spare_head + i) & (p->spare_size - 1)];
	free(p->spare);
	p->spare = spare;
	p->spare_size = size;
	p->spare_head = 0;
	p->spare_tail = n;
	return true;
}

void pool_free(struct pool *p, uint32_t index)
{
	lock_take(&p->lock);
	p->used--;
	/* without memory for the list, only the index is lost */
	if (p->spare_tail - p->spare_head < p->spare_size || grow_spare(p))
		p->spare[p->spare_tail++ & (p->spare_size - 1)] = index;
	lock_drop(&p->lock);
}
