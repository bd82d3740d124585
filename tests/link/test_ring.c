// SPDX-License-Identifier: BSD-2-Clause
// The ring: what one end produces, in pieces of any size, the other consumes; who sleeps is woken.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/ring.h"

enum { SIZE = 65536 };

struct ends {
	struct ring producer, consumer;
	sem_t bell, room; /* the two wake-ups */
	uint64_t messages;
};

static void open_ends(struct ends *e)
{
	int memory = ring_memory(SIZE);

	assert_true(memory >= 0);
	memset(e, 0, sizeof(*e));
	assert_int_equal(ring_map(&e->producer, memory), 0);
	assert_int_equal(ring_map(&e->consumer, memory), 0);
	close(memory);
	sem_init(&e->bell, 0, 0);
	sem_init(&e->room, 0, 0);
}

static void close_ends(struct ends *e)
{
	ring_unmap(&e->producer);
	ring_unmap(&e->consumer);
}

/* A message of `length` bytes that all say `number`. */
static void put(struct ring *r, uint64_t number, uint32_t length)
{
	uint32_t *at = ring_next(r);

	at[1] = length;
	memset(at + 2, (int)(number % 251), length);
	ring_publish(r, ring_round(8 + length));
}

static uint32_t length_of(uint64_t number)
{
	return (uint32_t)(number * 2654435761u >> 7) % (number % 16 ? 200 : 20000);
}

static void check(const uint32_t *at, uint64_t number)
{
	const uint8_t *bytes = (const uint8_t *)(at + 2);

	if (at[1] != length_of(number))
		fail_msg("message %lu has %u bytes", (unsigned long)number, at[1]);
	for (uint32_t i = 0; i < at[1]; i++)
		if (bytes[i] != number % 251)
			fail_msg("message %lu: byte %u is %u", (unsigned long)number, i, bytes[i]);
}

static void a_record_lies_in_one_piece_wherever_it_begins(void **state)
{
	struct ends e;
	uint32_t bytes;

	open_ends(&e);
	for (uint64_t i = 0; i < 1000; i++) {
		assert_true(ring_room(&e.producer, SIZE / 2) >= 20064);
		assert_null(ring_peek(&e.consumer, &bytes));
		put(&e.producer, i, length_of(i));
		check(ring_peek(&e.consumer, &bytes), i);
		ring_consume(&e.consumer, bytes);
	}
	close_ends(&e);
}

static void a_full_ring_has_no_room_until_something_is_consumed(void **state)
{
	struct ends e;
	uint32_t bytes, count = 0;

	open_ends(&e);
	while (ring_room(&e.producer, 1024) >= 1024) {
		*(uint32_t *)((char *)ring_next(&e.producer) + 4) = count++;
		ring_publish(&e.producer, 1024);
	}
	assert_int_equal(count, SIZE / 1024 - 1); /* the first word after the last record is clear */
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t *at = ring_peek(&e.consumer, &bytes);

		assert_non_null(at);
		assert_int_equal(at[1], i);
		ring_consume(&e.consumer, bytes);
	}
	assert_null(ring_peek(&e.consumer, &bytes));
	ring_tell(&e.consumer);
	assert_true(ring_room(&e.producer, SIZE) == SIZE - RING_UNIT);
	close_ends(&e);
}

static void a_word_that_cannot_be_a_size_stops_the_consumer(void **state)
{
	static const uint32_t lies[] = {1, 63, 65, SIZE, SIZE + 64, UINT32_MAX, 1u << 31};
	struct ends e;
	uint32_t bytes;

	open_ends(&e);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		*(uint32_t *)e.producer.data = lies[i];
		assert_null(ring_peek(&e.consumer, &bytes));
	}
	close_ends(&e);
}

static void a_head_that_lies_makes_no_room(void **state)
{
	static const uint64_t lies[] = {1, SIZE, UINT64_MAX, UINT64_MAX - SIZE, 1ull << 32};
	struct ends e;

	open_ends(&e);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		atomic_store(&e.consumer.words->head, lies[i]);
		e.producer.known = 0;
		e.producer.at = 0;
		assert_true(ring_room(&e.producer, SIZE) <= SIZE);
	}
	close_ends(&e);
}

static void memory_that_could_shrink_is_refused(void **state)
{
	struct ring r;
	int plain = memfd_create("test", 0), small = memfd_create("test", MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(plain, 65536 + SIZE), 0);
	assert_int_equal(ring_map(&r, plain), -EINVAL);
	assert_int_equal(ftruncate(small, 65536 + 4096), 0);
	assert_int_equal(ring_map(&r, small), -EINVAL);
	assert_int_equal(ring_map(&r, STDIN_FILENO), -EINVAL);
	close(plain);
	close(small);
	assert_int_equal(ring_memory(SIZE + 64), -EINVAL);
	assert_int_equal(ring_memory(4096), -EINVAL);
}

/* ---- two threads, each of which sleeps whenever it can ---- */

static void *produce(void *arg)
{
	struct ends *e = arg;
	struct ring *r = &e->producer;

	for (uint64_t i = 0; i < e->messages; i++) {
		uint32_t bytes = ring_round(8 + length_of(i));

		while (ring_room(r, bytes) < bytes)
			if (!ring_want(r, bytes))
				sem_wait(&e->room);
		put(r, i, length_of(i));
		if (ring_must_wake(r))
			sem_post(&e->bell);
	}
	return NULL;
}

static void consume(struct ends *e)
{
	struct ring *r = &e->consumer;

	for (uint64_t i = 0; i < e->messages;) {
		uint32_t bytes;
		const void *at = ring_peek(r, &bytes);

		if (at) {
			check(at, i++);
			ring_consume(r, bytes);
			continue;
		}
		ring_tell(r);
		if (ring_is_wanted(r))
			sem_post(&e->room);
		if (ring_sleep(r))
			continue;
		if (ring_is_wanted(r))
			sem_post(&e->room);
		sem_wait(&e->bell);
	}
}

static void two_threads_that_sleep_whenever_they_can_lose_nothing(void **state)
{
	struct ends e;
	pthread_t thread;

	open_ends(&e);
	e.messages = getenv("UROCE_QUICK") && *getenv("UROCE_QUICK") ? 5000 : 50000;
	assert_int_equal(pthread_create(&thread, NULL, produce, &e), 0);
	consume(&e);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close_ends(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_lies_in_one_piece_wherever_it_begins),
		cmocka_unit_test(a_full_ring_has_no_room_until_something_is_consumed),
		cmocka_unit_test(a_word_that_cannot_be_a_size_stops_the_consumer),
		cmocka_unit_test(a_head_that_lies_makes_no_room),
		cmocka_unit_test(memory_that_could_shrink_is_refused),
		cmocka_unit_test(two_threads_that_sleep_whenever_they_can_lose_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
