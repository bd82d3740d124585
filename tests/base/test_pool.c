/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/pool.h"

struct object {
	uint64_t owner, spare[9];
};

static void objects_are_zeroed_aligned_and_found_by_index(void **state)
{
	struct object *o[200];
	struct pool p;
	uint32_t index;

	assert_int_equal(pool_init(&p, sizeof(struct object), 1000), 0);
	assert_null(pool_at(&p, 0));
	assert_null(pool_at(&p, 1000));
	assert_null(pool_at(&p, UINT32_MAX));
	for (uint32_t i = 0; i < 200; i++) {
		o[i] = pool_alloc(&p, &index);
		assert_non_null(o[i]);
		assert_int_equal(index, i);
		assert_int_equal((uintptr_t)o[i] % CACHE_LINE, 0);
		assert_true(o[i]->owner == 0);
		o[i]->owner = i + 1;
	}
	for (uint32_t i = 0; i < 200; i++) {
		assert_ptr_equal(pool_at(&p, i), o[i]);
		assert_true(o[i]->owner == i + 1);
	}
	assert_int_equal(p.used, 200);
	pool_fini(&p);
}

static void the_limit_holds_and_a_freed_place_is_found_again(void **state)
{
	struct pool p;
	uint32_t index;
	void *o;

	assert_int_equal(pool_init(&p, 8, 70), 0);
	for (int i = 0; i < 70; i++)
		assert_non_null(pool_alloc(&p, &index));
	errno = 0;
	assert_null(pool_alloc(&p, &index));
	assert_int_equal(errno, ENOMEM);
	o = pool_at(&p, 33);
	pool_free(&p, 33);
	assert_ptr_equal(pool_at(&p, 33), o); /* a late reader may still look at it */
	assert_ptr_equal(pool_alloc(&p, &index), o);
	assert_int_equal(index, 33);
	assert_null(pool_alloc(&p, &index));
	pool_fini(&p);
}

static void a_freed_index_rests(void **state)
{
	struct pool p;
	uint32_t index, freed;

	assert_int_equal(pool_init(&p, 8, 1 << 16), 0);
	assert_non_null(pool_alloc(&p, &freed));
	pool_free(&p, freed);
	for (uint32_t i = 0; i < POOL_CHUNK / 2; i++) {
		assert_non_null(pool_alloc(&p, &index));
		assert_int_not_equal(index, freed);
		pool_free(&p, index);
	}
	pool_fini(&p);
}

static void no_memory_grows_while_objects_come_and_go(void **state)
{
	struct pool p;
	uint32_t index;

	assert_int_equal(pool_init(&p, 8, 1 << 20), 0);
	for (int i = 0; i < 100000; i++) {
		assert_non_null(pool_alloc(&p, &index));
		assert_true(index < 2 * POOL_CHUNK);
		pool_free(&p, index);
	}
	assert_int_equal(p.used, 0);
	pool_fini(&p);
}

/* Not random, but not in order either. */
static uint32_t draw(void *arg)
{
	return *(uint32_t *)arg = *(uint32_t *)arg * 1103515245 + 12345;
}

static void random_indexes_are_used_once_and_found(void **state)
{
	struct object *o[256];
	uint32_t index[256], seed = 1, apart = 0;
	struct pool p;

	assert_int_equal(pool_init_random(&p, sizeof(struct object), 256, draw, &seed), 0);
	for (uint32_t i = 0; i < 256; i++) { /* the last ones find nearly all in use */
		o[i] = pool_alloc(&p, &index[i]);
		assert_non_null(o[i]);
		assert_true(index[i] < 256);
		assert_true(o[i]->owner == 0);
		o[i]->owner = i + 1;
		apart += i && index[i] != index[i - 1] + 1;
	}
	assert_null(pool_alloc(&p, &index[0]));
	for (uint32_t i = 0; i < 256; i++)
		assert_ptr_equal(pool_at_random(&p, index[i]), o[i]);
	assert_true(apart > 200);
	assert_null(pool_at_random(&p, 256));
	pool_fini(&p);
}

/* The freed memory stays readable, rests, and comes back with another index. */
static void memory_with_random_indexes_is_used_again(void **state)
{
	struct object *first, *o;
	uint32_t index, old, seed = 1;
	bool came_back = false;
	struct pool p;

	assert_int_equal(pool_init_random(&p, sizeof(struct object), 1 << 15, draw, &seed), 0);
	first = pool_alloc(&p, &old);
	assert_non_null(first);
	pool_free(&p, old);
	assert_ptr_equal(pool_at_random(&p, old), first); /* a late reader may still look at it */
	for (uint32_t i = 0; i < 100000; i++) {
		o = pool_alloc(&p, &index);
		assert_non_null(o);
		if (o == first && !came_back) {
			assert_true(i >= POOL_CHUNK / 2);
			assert_int_not_equal(index, old);
			assert_null(pool_at_random(&p, old));
			came_back = true;
		}
		pool_free(&p, index);
	}
	assert_true(came_back);
	assert_true(p.made <= POOL_CHUNK);
	pool_fini(&p);
}

/* Each bit is as good as the others. */
static uint32_t draw_hashed(void *arg)
{
	uint64_t x = ++*(uint64_t *)arg * 0x9e3779b97f4a7c15u;

	return (uint32_t)((x ^ x >> 32) * 0xd6e8feb86659fd93u >> 32);
}

/* Both while one object comes and goes, and while most indexes are in use. */
static void a_random_index_does_not_come_again_soon(void **state)
{
	enum { LIMIT = 1 << 12, ROUNDS = 4 * LIMIT };
	static uint32_t round_of[LIMIT];

	for (uint32_t kept = 0; kept < LIMIT; kept += LIMIT / 2 - 1) {
		uint32_t index, soonest = UINT32_MAX;
		uint64_t seed = 1;
		struct pool p;

		assert_int_equal(pool_init_random(&p, sizeof(struct object), LIMIT, draw_hashed, &seed), 0);
		for (uint32_t i = 0; i < kept; i++)
			assert_non_null(pool_alloc(&p, &index));
		memset(round_of, 0, sizeof(round_of));
		for (uint32_t i = 1; i <= ROUNDS; i++) {
			assert_non_null(pool_alloc(&p, &index));
			if (round_of[index] && i - round_of[index] < soonest)
				soonest = i - round_of[index];
			round_of[index] = i;
			pool_free(&p, index);
		}
		assert_true(soonest > (LIMIT - kept) / 8);
		assert_true(soonest < ROUNDS); /* each index is used again */
		pool_fini(&p);
	}
}

static struct pool shared;
static _Atomic int collisions;

static void *take_and_give(void *arg)
{
	uint32_t index[16];
	struct object *o[16];

	for (int round = 0; round < 2000; round++) {
		for (int i = 0; i < 16; i++) {
			o[i] = pool_alloc(&shared, &index[i]);
			if (o[i]->owner)
				collisions++;
			o[i]->owner = (uintptr_t)arg;
		}
		for (int i = 0; i < 16; i++) {
			if (o[i]->owner != (uintptr_t)arg || pool_at(&shared, index[i]) != o[i])
				collisions++;
			o[i]->owner = 0;
			pool_free(&shared, index[i]);
		}
	}
	return NULL;
}

static void two_threads_never_get_the_same_object(void **state)
{
	pthread_t thread[4];

	assert_int_equal(pool_init(&shared, sizeof(struct object), 1 << 16), 0);
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, (void *)(i + 1)), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(collisions, 0);
	assert_int_equal(shared.used, 0);
	pool_fini(&shared);
}

static void a_walk_finds_every_object_of_either_kind(void **state)
{
	static const struct {
		uint32_t limit, objects;
		bool random;
	} rows[] = {{256, 0, false}, {256, 3, false}, {256, 256, false},
		    {256, 0, true},  {256, 3, true},  {256, 256, true}};

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		uint32_t index, seed = 1, found = 0;
		struct object *o;
		struct pool p;

		assert_int_equal(pool_init_random(&p, sizeof(*o), rows[r].limit, rows[r].random ? draw : NULL, &seed),
				 0);
		for (uint32_t i = 0; i < rows[r].objects; i++) {
			o = pool_alloc(&p, &index);
			assert_non_null(o);
			o->owner = index + 1;
		}
		for (uint32_t i = 0; (o = pool_next(&p, &i)); i++) {
			found += o->owner == i + 1;
			assert_true(o->owner == i + 1 || (!rows[r].random && o->owner == 0)); /* the rest of a chunk */
		}
		assert_int_equal(found, rows[r].objects);
		pool_fini(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_zeroed_aligned_and_found_by_index),
		cmocka_unit_test(the_limit_holds_and_a_freed_place_is_found_again),
		cmocka_unit_test(a_freed_index_rests),
		cmocka_unit_test(no_memory_grows_while_objects_come_and_go),
		cmocka_unit_test(random_indexes_are_used_once_and_found),
		cmocka_unit_test(a_walk_finds_every_object_of_either_kind),
		cmocka_unit_test(memory_with_random_indexes_is_used_again),
		cmocka_unit_test(a_random_index_does_not_come_again_soon),
		cmocka_unit_test(two_threads_never_get_the_same_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
