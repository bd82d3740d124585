/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t chunk_count(const struct pool *p)
{
	return p->draw ? p->limit : (p->limit + POOL_CHUNK - 1) / POOL_CHUNK;
}

static size_t drawn_bytes(const struct pool *p)
{
	return (p->limit + 63) / 64 * sizeof(uint64_t);
}

int pool_init_random(struct pool *p, uint32_t object_size, uint32_t limit, uint32_t (*draw)(void *arg), void *arg)
{
	memset(p, 0, sizeof(*p));
	lock_assert_unshared(&p->lock);
	lock_set_rank(&p->lock, RANK_POOL);
	p->size = (object_size + CACHE_LINE - 1) & ~(CACHE_LINE - 1u);
	p->limit = limit;
	p->room = limit;
	p->open = (1u << POOL_PARTS) - 1;
	p->rest = POOL_CHUNK / 2;
	p->draw = draw;
	p->draw_arg = arg;
	p->chunk = calloc(chunk_count(p), sizeof(*p->chunk));
	for (int i = 0; i < 2; i++)
		p->drawn[i] = draw ? calloc(1, drawn_bytes(p)) : NULL;
	if (p->chunk && !draw == !p->drawn[0] && !draw == !p->drawn[1])
		return 0;
	pool_fini(p);
	return -ENOMEM;
}

int pool_init(struct pool *p, uint32_t object_size, uint32_t limit)
{
	return pool_init_random(p, object_size, limit, NULL, NULL);
}

void pool_set_rank(struct pool *p, size_t offset, enum lock_rank rank)
{
#ifdef UROCE_LOCK_RANKS
	p->object_lock = offset;
	p->object_rank = rank;
#endif
}

static void set_open(struct pool *p, uint32_t open) REQUIRES(p->lock)
{
	p->open = open;
	p->room = (uint32_t)__builtin_popcount(open) * (p->limit / POOL_PARTS);
}

void pool_confine(struct pool *p, uint32_t part)
{
	lock_take(&p->lock);
	set_open(p, 1u << part);
	lock_drop(&p->lock);
}

void pool_open(struct pool *p, uint32_t part)
{
	lock_take(&p->lock);
	set_open(p, p->open | 1u << part);
	lock_drop(&p->lock);
}

void pool_rest(struct pool *p, uint32_t indexes)
{
	lock_take(&p->lock);
	p->rest = indexes;
	lock_drop(&p->lock);
}

void pool_fini(struct pool *p)
{
	lock_assert_unshared(&p->lock);
	for (uint32_t i = 0; p->chunk && i < chunk_count(p); i++)
		free(atomic_load_explicit(&p->chunk[i], memory_order_relaxed));
	free(p->chunk);
	free(p->spare);
	free(p->drawn[0]);
	free(p->drawn[1]);
	memset(p, 0, sizeof(*p));
}

/* Takes the index that was freed longest ago, if enough indexes are free or all are in use or free. */
static bool take_spare(struct pool *p, uint32_t *index) REQUIRES(p->lock)
{
	uint32_t spares = p->spare_tail - p->spare_head;

	/* keep freed indexes unused for a while, so that a late packet for a destroyed object does not find a new
	 * one */
	if (spares <= p->rest && (!spares || p->made < p->room))
		return false;
	*index = p->spare[p->spare_head++ & (p->spare_size - 1)];
	return true;
}

/* New memory for that many objects, zeroed. */
static char *new_chunk(const struct pool *p, uint32_t objects)
{
	char *c = aligned_alloc(CACHE_LINE, (size_t)objects * p->size);

	if (!c)
		return NULL;
	memset(c, 0, (size_t)objects * p->size);
#ifdef UROCE_LOCK_RANKS
	for (uint32_t i = 0; i < objects && p->object_rank; i++)
		lock_set_rank((struct lock *)(c + (size_t)i * p->size + p->object_lock), p->object_rank);
#endif
	return c;
}

static void *alloc_in_order(struct pool *p, uint32_t *index) REQUIRES(p->lock)
{
	_Atomic(char *) *chunk;
	char *c;

	if (!take_spare(p, index)) {
		if (p->made == p->limit)
			return NULL;
		*index = p->made++;
	}
	chunk = &p->chunk[*index >> POOL_CHUNK_BITS];
	c = atomic_load_explicit(chunk, memory_order_relaxed); /* only written under the lock */
	if (!c) {
		c = new_chunk(p, POOL_CHUNK);
		if (!c) {
			p->made--; /* if the chunk is missing, the index is new */
			return NULL;
		}
		atomic_store_explicit(chunk, c, memory_order_release); /* pairs with pool_at() */
	}
	return c + (size_t)(*index & (POOL_CHUNK - 1)) * p->size;
}

static bool index_is_free(struct pool *p, uint32_t index) REQUIRES(p->lock)
{
	return p->open >> index / (p->limit / POOL_PARTS) & 1 &&
	       !atomic_load_explicit(&p->chunk[index], memory_order_relaxed);
}

/* Draws the part of an index, one of those that are open. */
static uint32_t draw_part(const struct pool *p, uint32_t bits) REQUIRES(p->lock)
{
	uint32_t n = bits % (uint32_t)__builtin_popcount(p->open), open = p->open;

	while (n--)
		open &= open - 1;
	return (uint32_t)__builtin_ctz(open);
}

static bool is_drawn(const struct pool *p, uint32_t index) REQUIRES(p->lock)
{
	return (p->drawn[0][index / 64] | p->drawn[1][index / 64]) >> index % 64 & 1;
}

/* After as many draws as a quarter of the indexes that are not in use, forgets those before them. */
static void note_drawn(struct pool *p, uint32_t index) REQUIRES(p->lock)
{
	uint64_t *before = p->drawn[1];

	if (++p->draws > (p->room - p->used) / 4) {
		memset(before, 0, drawn_bytes(p));
		p->drawn[1] = p->drawn[0];
		p->drawn[0] = before;
		p->draws = 0;
	}
	p->drawn[0][index / 64] |= 1ull << index % 64;
}

/* Draws an index that leads to no memory; one exists. With half of them in use that takes four tries at most on
 * average; if nearly all are, takes the next free one, which may have been drawn lately. */
static uint32_t draw_index(struct pool *p) REQUIRES(p->lock)
{
	uint32_t part = p->limit / POOL_PARTS, index = 0;

	for (int tries = 0; tries < 64; tries++) {
		uint32_t bits = p->draw(p->draw_arg);

		index = draw_part(p, bits / part) * part + bits % part;
		if (index_is_free(p, index) && !is_drawn(p, index))
			return index;
	}
	while (!index_is_free(p, index))
		index = (index + 1) & (p->limit - 1);
	return index;
}

/* Allocates at a random index, which tells nothing about earlier ones. Uses the memory freed longest ago, which leaves
 * its index. */
static void *alloc_random(struct pool *p, uint32_t *index) REQUIRES(p->lock)
{
	uint32_t old;
	char *c;

	if (take_spare(p, &old)) {
		c = atomic_exchange_explicit(&p->chunk[old], NULL, memory_order_relaxed);
	} else {
		c = p->made < p->room ? new_chunk(p, 1) : NULL;
		p->made += !!c;
	}
	if (!c)
		return NULL;
	*index = draw_index(p);
	note_drawn(p, *index);
	atomic_store_explicit(&p->chunk[*index], c, memory_order_release); /* pairs with pool_at_random() */
	return c;
}

void *pool_alloc(struct pool *p, uint32_t *index)
{
	void *object;

	lock_take(&p->lock);
	object = p->draw ? alloc_random(p, index) : alloc_in_order(p, index);
	p->used += !!object;
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

bool pool_is_full(struct pool *p)
{
	bool full;

	lock_take(&p->lock);
	full = p->used == p->room;
	lock_drop(&p->lock);
	return full;
}

uint32_t pool_used(struct pool *p)
{
	uint32_t used;

	lock_take(&p->lock);
	used = p->used;
	lock_drop(&p->lock);
	return used;
}

uint32_t pool_made(struct pool *p)
{
	uint32_t made;

	lock_take(&p->lock);
	made = p->made;
	lock_drop(&p->lock);
	return made;
}

void *pool_next(struct pool *p, uint32_t *index)
{
	for (; *index < p->limit; ++*index) {
		void *object = p->draw ? pool_at_random(p, *index) : pool_at(p, *index);

		if (object)
			return object;
	}
	return NULL;
}
