/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective acknowledgements: what is written is what is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "wire/sack.h"

static void bits_come_back(void **state)
{
	uint8_t payload[SACK_PAYLOAD];

	for (uint32_t count = 1; count <= SACK_BITS; count++) {
		uint32_t length = sack_begin(payload, psn(0xfffffe), count);
		struct sack s;

		assert_int_equal(length % 4, 0);
		for (uint32_t i = 0; i < count; i += 3)
			sack_set(payload, i);
		assert_true(sack_parse(&s, payload, length));
		assert_int_equal(s.first.v, 0xfffffe);
		assert_in_range(s.count, count, count + 31);
		for (uint32_t i = 0; i < s.count; i++)
			assert_int_equal(sack_has(&s, i), i < count && i % 3 == 0);
	}
}

static void the_first_bit_is_the_lowest(void **state)
{
	static const uint8_t expected[8] = {0, 0x12, 0x34, 0x56, 0x02, 0x01};
	uint8_t payload[SACK_PAYLOAD];

	assert_int_equal(sack_begin(payload, psn(0x123456), 9), 8);
	sack_set(payload, 1);
	sack_set(payload, 8);
	assert_memory_equal(payload, expected, sizeof(expected));
}

static void other_lengths_are_refused(void **state)
{
	static const uint8_t bytes[SACK_PAYLOAD + 4];
	struct sack s;

	for (uint32_t length = 0; length <= sizeof(bytes); length++)
		assert_int_equal(sack_parse(&s, bytes, length),
				 length > 4 && length <= SACK_PAYLOAD && length % 4 == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_come_back),
		cmocka_unit_test(the_first_bit_is_the_lowest),
		cmocka_unit_test(other_lengths_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
