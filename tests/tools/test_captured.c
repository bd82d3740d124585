/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of a capture, as `uroce pcap` reads it from a process that may be broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"
#include "tools/capture/captured.h"

#define RING   65536u
#define EVENT  (((uint32_t)sizeof(struct capture_event) + 15) & ~15u)
#define PACKET (((uint32_t)sizeof(struct capture_packet) + 15) & ~15u)

static struct captured captured;
static struct capture_header *ring;

static int start(void **state)
{
	int fd = memfd_of_size("ring", 0, CAPTURE_PAGE + RING);

	ring = mmap(NULL, CAPTURE_PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(ring, MAP_FAILED);
	*ring = (struct capture_header){.magic = CAPTURE_MAGIC, .bytes = RING};
	assert_true(captured_open(&captured, fd, CAPTURE_PAGE + RING));
	return 0;
}

static int end(void **state)
{
	captured_close(&captured);
	munmap(ring, CAPTURE_PAGE + RING);
	return 0;
}

static struct capture_record *put(uint32_t bytes, uint8_t kind, uint8_t link)
{
	uint64_t written = ring->written;
	struct capture_record *r = (void *)((char *)ring + CAPTURE_PAGE + written % RING);

	*r = (struct capture_record){.bytes = bytes, .kind = kind, .link = link};
	ring->written = written + bytes;
	return r;
}

static const struct capture_record *take(void)
{
	return captured_next(&captured, captured_written(&captured));
}

static void records_come_in_order_around_the_end(void **state)
{
	for (uint32_t i = 0; i < 10 * RING / EVENT; i++) {
		uint32_t rest = RING - ring->written % RING;

		if (rest < EVENT)
			put(rest, CAPTURE_FILL, 0);
		put(EVENT, CAPTURE_EVENT, 0)->time = i;
		assert_int_equal(take()->time, i);
		assert_null(take());
		assert_int_equal(ring->read, ring->written);
	}
	assert_false(captured.broken);
}

static void a_record_that_changes_later_stays_as_it_was_checked(void **state)
{
	struct capture_record *r = put(PACKET, CAPTURE_PACKET, CAPTURE_UDP);
	const struct capture_record *copy = take();

	assert_non_null(copy);
	memset(r, 0xff, PACKET);
	assert_int_equal(copy->bytes, PACKET);
	assert_int_equal(copy->link, CAPTURE_UDP);
}

static void a_record_of_a_later_version_is_passed_over(void **state)
{
	put(64, 77, 0);
	put(EVENT, CAPTURE_EVENT, 0);
	assert_int_equal(take()->kind, CAPTURE_EVENT);
}

static void what_is_no_record_ends_the_reading(void **state)
{
	static const struct {
		uint32_t bytes;
		uint8_t kind, link;
		uint64_t written;
	} rows[] = {
		{0, CAPTURE_EVENT, 0, 64},
		{8, CAPTURE_EVENT, 0, 64},
		{EVENT + 1, CAPTURE_EVENT, 0, 2 * EVENT},
		{16, CAPTURE_EVENT, 0, 16}, /* too short for its kind */
		{64, CAPTURE_PACKET, 0, 64},
		{PACKET, CAPTURE_ONESIDED, 0, PACKET},
		{PACKET, CAPTURE_PACKET, 3, PACKET}, /* of no link */
		{PACKET, CAPTURE_PACKET, 0, 16},     /* longer than what is written */
		{RING / 2, CAPTURE_PACKET, 0, RING},
		{RING, CAPTURE_FILL, 0, RING},
		{2 * RING, CAPTURE_PACKET, 0, RING},
		{UINT32_MAX & ~15u, CAPTURE_PACKET, 0, RING},
		{EVENT, CAPTURE_EVENT, 0, RING + 16}, /* more than there is room for */
		{EVENT, CAPTURE_EVENT, 0, UINT64_MAX - 15},
		{EVENT, CAPTURE_EVENT, 0, EVENT + 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start(state);
		put(rows[i].bytes, rows[i].kind, rows[i].link);
		ring->written = rows[i].written;
		if (take() || !captured.broken)
			fail_msg("row %zu", i);
		assert_null(take());
		end(state);
	}
}

static void a_length_that_reaches_over_the_end_is_refused(void **state)
{
	while (ring->written < RING - EVENT) {
		put(EVENT, CAPTURE_EVENT, 0);
		assert_non_null(take());
	}
	put(2 * PACKET, CAPTURE_PACKET, 0);
	assert_null(take());
	assert_true(captured.broken);
}

static void memory_that_is_no_ring_is_refused(void **state)
{
	static const struct {
		uint32_t size, bytes;
		uint64_t magic;
	} rows[] = {
		{CAPTURE_PAGE, 0, CAPTURE_MAGIC},
		{CAPTURE_PAGE + RING, RING, 0},
		{CAPTURE_PAGE + RING, RING / 2, CAPTURE_MAGIC},
		{4 * CAPTURE_PAGE, 3 * CAPTURE_PAGE, CAPTURE_MAGIC},
	};
	struct captured c;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct capture_header header = {.magic = rows[i].magic, .bytes = rows[i].bytes};
		int fd = memfd_of_size("ring", 0, rows[i].size);

		assert_int_equal(memfd_fill(fd, &header, sizeof(header)), 0);
		assert_false(captured_open(&c, fd, rows[i].size));
		assert_int_equal(close(fd), -1); /* it is closed */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_come_in_order_around_the_end, start, end),
		cmocka_unit_test_setup_teardown(a_record_that_changes_later_stays_as_it_was_checked, start, end),
		cmocka_unit_test_setup_teardown(a_record_of_a_later_version_is_passed_over, start, end),
		cmocka_unit_test(what_is_no_record_ends_the_reading),
		cmocka_unit_test_setup_teardown(a_length_that_reaches_over_the_end_is_refused, start, end),
		cmocka_unit_test(memory_that_is_no_ring_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
