/* SPDX-License-Identifier: BSD-2-Clause */
/* A pool of objects of one size, found by index. Memory that held an object is never given back to the system
 * while the pool lives, so a reader may look at an object that has just been freed: it takes the object's own
 * lock (or a hold) and then checks that the object is still the one it wanted. Freed indexes are reused last.
 * Any thread may call; pool_at() takes no lock. */
#ifndef UROCE_POOL_H
#define UROCE_POOL_H

#include "base/lock.h"

#define POOL_CHUNK_BITS 6
#define POOL_CHUNK	(1u << POOL_CHUNK_BITS)

struct pool {
	struct lock lock;
	uint32_t size;			   /* bytes per object, a multiple of CACHE_LINE */
	uint32_t limit;			   /* objects at most */
	uint32_t made GUARDED_BY(&lock);   /* indexes ever handed out */
	uint32_t used GUARDED_BY(&lock);   /* objects alive */
	uint32_t *spare GUARDED_BY(&lock); /* ring of freed indexes, oldest first */
	uint32_t spare_head GUARDED_BY(&lock), spare_tail GUARDED_BY(&lock), spare_size GUARDED_BY(&lock);
	_Atomic(char *) *chunk;
};

/* Returns 0 or -ENOMEM. */
int pool_init(struct pool *p, uint32_t object_size, uint32_t limit);
void pool_fini(struct pool *p);

/* A zeroed-at-first-use object; its index goes to *index. NULL: out of memory or `limit` objects are alive
 * (errno ENOMEM). A reused object comes as pool_free() left it. */
void *pool_alloc(struct pool *p, uint32_t *index);
void pool_free(struct pool *p, uint32_t index);

/* The object's memory, alive or not; NULL if no object ever had that index. */
static inline void *pool_at(struct pool *p, uint32_t index)
{
	char *c;

	if (unlikely(index >= p->limit))
		return NULL;
	/* acquire pairs with the release in pool_alloc(): the chunk is zeroed before it is seen */
	c = atomic_load_explicit(&p->chunk[index >> POOL_CHUNK_BITS], memory_order_acquire);
	return c ? c + (size_t)(index & (POOL_CHUNK - 1)) * p->size : NULL;
}

#endif
