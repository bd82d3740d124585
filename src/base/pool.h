/* SPDX-License-Identifier: BSD-2-Clause */
/* A pool of objects of one size, found by index. The memory of an object is not returned to the system while the pool
 * exists. So a reader may look at an object that has just been freed: it takes the lock of the object (or a hazard
 * pointer) and then checks that it is still the wanted object. Any thread may call; pool_at() takes no lock.
 *
 * The indexes are in order, and a freed one is reused as late as possible; or, after pool_init_random(), each object
 * gets an index at random, which is not one of those drawn lately: as many as a quarter of those that are not in use.
 * Then each has its own chunk, and pool_at_random() finds it. */
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
	uint32_t room GUARDED_BY(&lock); /* objects that may be alive: `limit`, or those of the open parts */
	uint32_t open GUARDED_BY(&lock); /* random indexes: a bit for each part that is open */
	uint32_t rest GUARDED_BY(&lock); /* freed indexes that stay unused at least */
	uint32_t (*draw)(void *arg);	 /* 32 random bits; NULL: indexes are in order */
	void *draw_arg;
	uint64_t *drawn[2] GUARDED_BY(&lock); /* random indexes: bits of those drawn since the last turn, and before */
	uint32_t draws GUARDED_BY(&lock);     /* since the last turn */
	_Atomic(char *) *chunk;
#ifdef UROCE_LOCK_RANKS
	size_t object_lock;	    /* of an object: offset of its lock ... */
	enum lock_rank object_rank; /* ... and its rank. RANK_NONE: it has no lock */
#endif
};

/* Makes a pool of objects of that size. 0 or -ENOMEM. */
int pool_init(struct pool *p, uint32_t object_size, uint32_t limit);
/* Makes a pool with random indexes. `limit`: a power of two. `draw`: called under the pool's lock. */
int pool_init_random(struct pool *p, uint32_t object_size, uint32_t limit, uint32_t (*draw)(void *arg), void *arg);
void pool_fini(struct pool *p);
/* Gives the lock at this offset in each object its rank: before the first object is allocated, since a reader may look
 * at an object as soon as there is memory for it. */
void pool_set_rank(struct pool *p, size_t offset, enum lock_rank rank);

/* Sets how many others must have been freed before a freed index is used again. Default: half a chunk. */
void pool_rest(struct pool *p, uint32_t indexes);

#define POOL_PARTS 8u
/* Limits a pool with random indexes to one of POOL_PARTS parts, before the first object is allocated. */
void pool_confine(struct pool *p, uint32_t part);
/* Opens one more part for such a pool. */
void pool_open(struct pool *p, uint32_t part);
/* Numbers of objects alive, and of indexes ever handed out; at once out of date. */
uint32_t pool_used(struct pool *p);
uint32_t pool_made(struct pool *p);

/* Allocates an object and writes its index to *index. The object is zeroed at its first use; later it is as pool_free()
 * left it. NULL and errno ENOMEM: out of memory, or as many objects are alive as there can be. */
void *pool_alloc(struct pool *p, uint32_t *index);
void pool_free(struct pool *p, uint32_t index);
/* True if as many objects are alive as there can be; at once out of date. */
bool pool_is_full(struct pool *p);

/* The memory of the object, alive or freed; NULL if no object ever had that index. */
static inline void *pool_at(struct pool *p, uint32_t index)
{
	char *c;

	if (unlikely(index >= p->limit))
		return NULL;
	/* acquire pairs with the release in pool_alloc(): the chunk is zeroed before it is seen */
	c = atomic_load_explicit(&p->chunk[index >> POOL_CHUNK_BITS], memory_order_acquire);
	return c ? c + (size_t)(index & (POOL_CHUNK - 1)) * p->size : NULL;
}

/* pool_at() for a pool with random indexes. The memory of a freed object gets another index later, so two indexes may
 * lead to it for a moment. */
static inline void *pool_at_random(struct pool *p, uint32_t index)
{
	if (unlikely(index >= p->limit))
		return NULL;
	return atomic_load_explicit(&p->chunk[index], memory_order_acquire); /* pairs with alloc_random() */
}

/* Walks a pool of either kind: returns the object with the first index from *index on that leads to memory, alive or
 * freed, and sets *index. NULL: none. */
void *pool_next(struct pool *p, uint32_t *index);

#endif
