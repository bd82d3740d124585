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

#include "base/lock.h"
#include "link/ring.h"

enum { SIZE = 65536 };

struct ends {
	struct ring producer, consumer;
	sem_t doorbell, room; /* the two wake-ups */
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
	sem_init(&e->doorbell, 0, 0);
	sem_init(&e->room, 0, 0);
}

static void close_ends(struct ends *e)
{
	ring_unmap(&e->producer);
	ring_unmap(&e->consumer);
}

/* A message as a record. */
struct message {
	struct ring_mark mark;
	uint32_t length;
	uint8_t bytes[];
};

/* One of `length` bytes that all say `number`. */
static void put(struct ring *r, uint64_t number, uint32_t length)
{
	struct message *m = (struct message *)ring_next(r);

	m->length = length;
	memset(m->bytes, (int)(number % 251), length);
	ring_publish(r, sizeof(*m) + length);
}

static uint32_t length_of(uint64_t number)
{
	return (uint32_t)(number * 2654435761u >> 7) % (number % 16 ? 200 : 20000);
}

static void check(const struct message *m, uint64_t number)
{
	if (m->length != length_of(number))
		fail_msg("message %lu has %u bytes", (unsigned long)number, m->length);
	for (uint32_t i = 0; i < m->length; i++)
		if (m->bytes[i] != number % 251)
			fail_msg("message %lu: byte %u is %u", (unsigned long)number, i, m->bytes[i]);
}

static void a_record_lies_in_one_piece_wherever_it_begins(void **state)
{
	struct ends e;
	uint32_t bytes = 0;

	open_ends(&e);
	for (uint64_t i = 0; i < 1000; i++) {
		assert_true(ring_room(&e.producer, SIZE / 2) >= 20100);
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
	uint32_t bytes = 0, count = 0;

	open_ends(&e);
	while (ring_room(&e.producer, 1024) >= 1024) {
		((struct message *)ring_next(&e.producer))->length = count++;
		ring_publish(&e.producer, 1000);
	}
	assert_int_equal(count, SIZE / 1024);
	for (uint32_t i = 0; i < count; i++) {
		const struct message *m = ring_peek(&e.consumer, &bytes);

		assert_non_null(m);
		assert_int_equal(bytes, 1000);
		assert_int_equal(m->length, i);
		ring_consume(&e.consumer, bytes);
	}
	assert_null(ring_peek(&e.consumer, &bytes));
	ring_tell(&e.consumer);
	assert_true(ring_room(&e.producer, SIZE) == SIZE);
	close_ends(&e);
}

/* Batches of any length: none of them is an eighth of the ring. */
static void a_producer_that_waits_is_told_of_room(void **state)
{
	struct ends e;
	uint32_t bytes = 0, told = 0;

	open_ends(&e);
	while (ring_room(&e.producer, 1024) >= 1024)
		ring_publish(&e.producer, 1000);
	for (uint32_t left = SIZE / 1024; left; left -= 2) {
		if (!told && ring_want(&e.producer, SIZE / 4))
			fail_msg("there is room, and nobody said so");
		for (int i = 0; i < 2; i++) {
			assert_non_null(ring_peek(&e.consumer, &bytes));
			ring_consume(&e.consumer, bytes);
		}
		told += ring_rest(&e.consumer);
		if (told && ring_room(&e.producer, SIZE) < SIZE / 4)
			told = 0; /* not enough: it waits again */
	}
	assert_true(told);
	close_ends(&e);
}

/* As data may be. */
static void no_mark_of_an_older_record_or_of_another_ring_is_taken_for_the_next(void **state)
{
	struct ends e, other;
	uint32_t bytes = 0;

	open_ends(&e);
	open_ends(&other);
	assert_int_not_equal(e.consumer.key, other.consumer.key);
	assert_int_equal(e.consumer.key, e.producer.key);
	for (uint32_t i = 0; i < 2 * SIZE / RING_UNIT; i++) {
		uint64_t lies[] = {0,
				   e.producer.at,
				   e.producer.key,
				   e.producer.key + e.producer.at - SIZE,
				   e.producer.key + e.producer.at + RING_UNIT,
				   other.producer.key + e.producer.at};

		for (size_t j = 0; j < ARRAY_SIZE(lies); j++) {
			if (lies[j] == e.producer.key + e.producer.at)
				continue;
			memcpy(ring_next(&e.producer), &lies[j], sizeof(lies[j]));
			assert_true(ring_is_empty(&e.consumer));
			assert_null(ring_peek(&e.consumer, &bytes));
		}
		put(&e.producer, i, 8);
		assert_false(ring_is_empty(&e.consumer));
		assert_non_null(ring_peek(&e.consumer, &bytes));
		ring_consume(&e.consumer, bytes);
	}
	close_ends(&e);
	close_ends(&other);
}

static void a_size_that_cannot_be_one_stops_the_consumer(void **state)
{
	static const uint32_t lies[] = {0, 1, sizeof(struct ring_mark) - 1, SIZE + 1, UINT32_MAX, 1u << 31};
	struct ends e;
	uint32_t bytes = 0;

	open_ends(&e);
	put(&e.producer, 0, 8);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		ring_next(&e.consumer)->bytes = lies[i];
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

static void one_that_is_over_has_nobody_who_sleeps(void **state)
{
	struct ends e;

	open_ends(&e);
	assert_false(ring_is_asleep(&e.producer));
	assert_false(ring_sleep(&e.consumer));
	assert_true(ring_is_asleep(&e.producer));
	assert_false(ring_is_asleep(&e.producer)); /* the one that clears it rings the doorbell */
	assert_false(ring_sleep(&e.consumer));
	ring_retire(&e.producer);
	assert_false(ring_is_asleep(&e.producer));
	assert_false(ring_must_wake(&e.producer));
	close_ends(&e);
}

static void *produce(void *arg)
{
	struct ends *e = arg;
	struct ring *r = &e->producer;
	struct lock tx_ring = LOCK_RANKED(LOCAL_PEER);
	bool wake;

	for (uint64_t i = 0; i < e->messages; i++) {
		uint32_t bytes = sizeof(struct message) + length_of(i);

		while (ring_room(r, bytes) < bytes)
			if (!ring_want(r, bytes))
				sem_wait(&e->room);
		/* either way of a producer: a barrier of its own, or that of a lock */
		lock_take(&tx_ring);
		put(r, i, length_of(i));
		wake = i & 1 && ring_must_wake(r);
		lock_drop_fully(&tx_ring);
		if (wake || (!(i & 1) && ring_is_asleep(r)))
			sem_post(&e->doorbell);
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
		sem_wait(&e->doorbell);
	}
}

/* Pages of the ring's data that the kernel has given us, from the first on. */
static uint32_t pages_ready(const struct ring *r)
{
	long page = sysconf(_SC_PAGESIZE);
	unsigned char there[SIZE / 4096];
	uint32_t n = 0;

	assert_int_equal(mincore(r->data, SIZE, there), 0);
	while (n < SIZE / page && there[n] & 1)
		n++;
	return n;
}

static void as_much_memory_is_made_ready_as_has_been_used(void **state)
{
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE), most = SIZE / 8 / page, before;
	struct ends e;

	open_ends(&e);
	assert_int_equal(pages_ready(&e.producer), 0);
	put(&e.producer, 0, 10);
	before = pages_ready(&e.producer);
	if (before == 1 || !most) {
		print_message("# the kernel knows no MADV_POPULATE_WRITE, or its pages are large\n");
		close_ends(&e);
		return;
	}
	assert_int_equal(before, 2);
	while (e.producer.at < SIZE) {
		uint32_t used = (uint32_t)(e.producer.at + page - 1) / page, ready = pages_ready(&e.producer);

		assert_true(ready >= min_of(used + (e.producer.at % page ? 0 : 1), SIZE / page));
		assert_true(ready <= used + most);
		put(&e.producer, 0, 100);
	}
	put(&e.producer, 0, 100);
	assert_int_equal(pages_ready(&e.producer), SIZE / page);
	close_ends(&e);
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
		cmocka_unit_test(a_producer_that_waits_is_told_of_room),
		cmocka_unit_test(a_full_ring_has_no_room_until_something_is_consumed),
		cmocka_unit_test(no_mark_of_an_older_record_or_of_another_ring_is_taken_for_the_next),
		cmocka_unit_test(a_size_that_cannot_be_one_stops_the_consumer),
		cmocka_unit_test(a_head_that_lies_makes_no_room),
		cmocka_unit_test(memory_that_could_shrink_is_refused),
		cmocka_unit_test(one_that_is_over_has_nobody_who_sleeps),
		cmocka_unit_test(as_much_memory_is_made_ready_as_has_been_used),
		cmocka_unit_test(two_threads_that_sleep_whenever_they_can_lose_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
