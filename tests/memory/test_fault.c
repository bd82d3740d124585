/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies from and to memory that may be gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/fault.h"

enum { LONGEST = 80 };

static size_t page;
static char *memory; /* one page, and none before and behind it */
static char bytes[LONGEST];

static int setup(void **state)
{
	char *all;

	page = (size_t)sysconf(_SC_PAGESIZE);
	all = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < LONGEST; i++)
		bytes[i] = (char)(i * 7 + 1);
	if (all == MAP_FAILED)
		return -1;
	memory = all + page;
	return munmap(all, page) || munmap(memory + page, page);
}

static int teardown(void **state)
{
	return munmap(memory, page);
}

static bool (*const every[])(char *, const void *, size_t) = {fault_copy, fault_load, fault_store};

static void all_bytes_are_copied_and_no_others(void **state)
{
	char expected[LONGEST + 2];

	for (uint32_t i = 0; i < ARRAY_SIZE(every); i++)
		for (uint32_t length = 0; length <= LONGEST; length++)
			for (uint32_t offset = 1; offset <= 16; offset++) {
				char *at = memory + offset;

				memset(at - 1, 0xee, LONGEST + 2);
				memset(expected, 0xee, sizeof(expected));
				memcpy(expected + 1, bytes, length);
				assert_true(every[i](at, bytes, length));
				assert_memory_equal(at - 1, expected, sizeof(expected));
			}
}

static void what_overlaps_is_copied_as_it_was(void **state)
{
	char expected[2 * LONGEST];

	for (uint32_t length = 0; length <= LONGEST; length++)
		for (uint32_t from = 0; from <= LONGEST - length; from++)
			for (uint32_t to = 0; to <= LONGEST - length; to++) {
				memcpy(memory, bytes, LONGEST);
				memcpy(expected, bytes, LONGEST);
				memmove(expected + to, expected + from, length);
				assert_true(fault_copy(memory + to, memory + from, length));
				assert_memory_equal(memory, expected, LONGEST);
			}
}

/* The first bytes may be there, or the last. */
static void where_to_copy_is_not_there(void **state)
{
	fault_arm(); /* after cmocka */
	for (uint32_t length = 1; length <= LONGEST; length++)
		for (uint32_t missing = 1; missing <= length; missing++) {
			assert_false(fault_store(memory + page - length + missing, bytes, length));
			assert_false(fault_store(memory - missing, bytes, length));
			assert_true(fault_store(memory + page - length, bytes, length));
			assert_false(fault_copy(memory + page - length + missing, bytes, length));
			assert_false(fault_copy(memory - missing, bytes, length));
			assert_true(fault_copy(memory + page - length, bytes, length));
		}
}

static void what_to_copy_is_not_there(void **state)
{
	char to[LONGEST] __attribute__((aligned(8))) = {0};

	fault_arm();
	for (uint32_t length = 1; length <= LONGEST; length++)
		for (uint32_t missing = 1; missing <= length; missing++) {
			memcpy(memory, bytes, LONGEST);
			memcpy(memory + page - LONGEST, bytes, LONGEST);
			assert_false(fault_load(to, memory + page - length + missing, length));
			assert_false(fault_load(to, memory - missing, length));
			assert_true(fault_load(to, memory + page - length, length));
			assert_memory_equal(to, memory + page - length, length);
			memset(to, 0, sizeof(to));
			assert_false(fault_copy(to, memory + page - length + missing, length));
			assert_false(fault_copy(to, memory - missing, length));
			assert_true(fault_copy(to, memory + page - length, length));
			assert_memory_equal(to, memory + page - length, length);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_bytes_are_copied_and_no_others, setup, teardown),
		cmocka_unit_test_setup_teardown(what_overlaps_is_copied_as_it_was, setup, teardown),
		cmocka_unit_test_setup_teardown(where_to_copy_is_not_there, setup, teardown),
		cmocka_unit_test_setup_teardown(what_to_copy_is_not_there, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
