/* SPDX-License-Identifier: BSD-2-Clause */
/* The keyed hash against the vectors of its authors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/siphash.h"

static void it_is_siphash_2_4(void **state)
{
	static const struct {
		size_t length;
		uint64_t hash;
	} row[] = {{0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5}};
	struct siphash_key key;
	uint8_t bytes[16];

	for (uint8_t i = 0; i < 16; i++)
		bytes[i] = i;
	memcpy(&key, bytes, sizeof(key));
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		assert_int_equal(siphash(&key, bytes, row[i].length), row[i].hash);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_siphash_2_4)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
