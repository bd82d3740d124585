/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/base.h"
#include "base/be.h"
#include "base/psn.h"

static void a_psn_has_24_bits(void **state)
{
	assert_int_equal(psn(0x1234567).v, 0x234567);
	assert_int_equal(psn_add(psn(0xffffff), 1).v, 0);
	assert_int_equal(psn_add(psn(5), 0xffffff).v, 4);
}

static void differences_cross_the_wrap(void **state)
{
	static const struct {
		uint32_t a, b;
		int32_t diff;
	} row[] = {
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{0, 0xffffff, 1},
		{0xffffff, 0, -1},
		{0x7fffff, 0, 0x7fffff},
		{0x800000, 0, -0x800000},
		{0, 0x800000, -0x800000},
		{0x10, 0xfffff0, 0x20},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		assert_int_equal(psn_diff(psn(row[i].a), psn(row[i].b)), row[i].diff);
		assert_int_equal(psn_before(psn(row[i].a), psn(row[i].b)), row[i].diff < 0);
		assert_int_equal(psn_equal(psn(row[i].a), psn(row[i].b)), row[i].diff == 0);
	}
}

static void adding_a_difference_gets_back(void **state)
{
	uint32_t x = 1;

	for (int i = 0; i < 100000; i++) {
		psn_t a = psn(x = x * 1664525 + 1013904223), b = psn(x = x * 1664525 + 1013904223);

		assert_true(psn_equal(psn_add(b, (uint32_t)psn_diff(a, b)), a));
	}
}

static void numbers_stand_big_endian(void **state)
{
	union {
		be32 n;
		uint8_t byte[4];
	} four = {to_be32(0x01020304)};
	union {
		be64 n;
		uint8_t byte[8];
	} eight = {to_be64(0x0102030405060708)};

	for (int i = 0; i < 4; i++)
		assert_int_equal(four.byte[i], i + 1);
	for (int i = 0; i < 8; i++)
		assert_int_equal(eight.byte[i], i + 1);
	assert_int_equal(from_be32(four.n), 0x01020304);
	assert_true(from_be64(eight.n) == 0x0102030405060708);
	assert_int_equal(from_be16(to_be16(0xabcd)), 0xabcd);
	assert_int_equal(_Alignof(be64), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_psn_has_24_bits),
		cmocka_unit_test(differences_cross_the_wrap),
		cmocka_unit_test(adding_a_difference_gets_back),
		cmocka_unit_test(numbers_stand_big_endian),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
