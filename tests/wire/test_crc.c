/* SPDX-License-Identifier: BSD-2-Clause */
/* Every CRC engine gives the values of the CRC's definition, on any length and alignment. */
#include <string.h>

#include "wire/engines.h"

/* The definition: a bit at a time. */
static uint32_t crc_by_bits(uint32_t crc, const uint8_t *bytes, uint64_t n)
{
	crc = ~crc;
	for (uint64_t i = 0; i < n; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC_POLYNOMIAL : 0);
	}
	return ~crc;
}

static uint8_t noise[70000];

static int make_noise(void **state)
{
	uint32_t x = 1;

	for (size_t i = 0; i < sizeof(noise); i++) {
		x = x * 1664525 + 1013904223;
		noise[i] = x >> 24;
	}
	return 0;
}

static void engine_gives_known_values(void **state)
{
	static const struct {
		const char *text;
		uint32_t crc;
	} known[] = {
		{"", 0x00000000},
		{"a", 0xe8b7be43},
		{"abc", 0x352441c2},
		{"123456789", 0xcbf43926},
		{"message digest", 0x20159d7f},
		{"abcdefghijklmnopqrstuvwxyz", 0x4c2750bd},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 0x1fc2e6d2},
		{"12345678901234567890123456789012345678901234567890123456789012345678901234567890", 0x7ca94a72},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		assert_int_equal(crc(0, known[i].text, strlen(known[i].text)), known[i].crc);
}

static void any_length_and_alignment_is_right(void **state)
{
	for (size_t n = 0; n <= 1100; n++)
		for (size_t offset = 0; offset < 17; offset += n < 300 ? 1 : 8)
			assert_int_equal(crc(n * 0x9e3779b9, noise + offset, n),
					 crc_by_bits(n * 0x9e3779b9, noise + offset, n));
}

static void long_buffers_are_right(void **state)
{
	for (size_t n = 1101; n < sizeof(noise) - 64; n += n / 7)
		assert_int_equal(crc(n, noise + n % 64, n), crc_by_bits(n, noise + n % 64, n));
}

static void pieces_chain(void **state)
{
	uint32_t whole = crc(0, noise, 4096);

	for (size_t cut = 0; cut <= 4096; cut += 3)
		assert_int_equal(crc(crc(0, noise, cut), noise + cut, 4096 - cut), whole);
}

/* Reading past the end would fault (or be seen by the address sanitizer). */
static void no_more_is_read_than_is_given(void **state)
{
	for (size_t n = 1; n < 600; n++) {
		uint8_t *exact = malloc(n);

		memcpy(exact, noise, n);
		assert_int_equal(crc(0, exact, n), crc_by_bits(0, noise, n));
		free(exact);
	}
}

static void the_selected_engine_is_the_best_that_there_is(void **state)
{
	const struct crc_engine *first = crc_engines;

	while (!first->find())
		first++;
	assert_ptr_equal(crc_init(), first);
	assert_int_equal(crc(0, "123456789", 9), 0xcbf43926);
	print_message("# %s\n", first->name);
}

static void powers_multiply_as_exponents_add(void **state)
{
	static const int64_t n[] = {0, 1, 7, 8, 31, 32, 33, 8 * 4096, 65535 * 8, UINT32_MAX - 1ll, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(n); i++) {
		assert_int_equal(crc_multiply(crc_power(n[i]), crc_power(-n[i])), CRC_ONE);
		for (size_t k = 0; k < ARRAY_SIZE(n); k++)
			assert_int_equal(crc_multiply(crc_power(n[i]), crc_power(n[k])), crc_power(n[i] + n[k]));
	}
}

static void a_zero_byte_multiplies_the_register_by_x_to_the_8(void **state)
{
	static const uint8_t zero[100];

	for (uint32_t n = 0; n <= sizeof(zero); n++)
		assert_int_equal(~crc(~0x12345678u, zero, n), crc_multiply(0x12345678, crc_power(8 * n)));
}

static void all_bytes_are_multiplied_at_once(void **state)
{
	static const uint32_t by[] = {0, 1, CRC_ONE, CRC_POLYNOMIAL, 0x12345678, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(by); i++) {
		uint32_t product[256];

		crc_multiples(product, by[i]);
		for (uint32_t b = 0; b < 256; b++)
			assert_int_equal(product[b], crc_multiply(b, by[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engine_gives_known_values),
		cmocka_unit_test(any_length_and_alignment_is_right),
		cmocka_unit_test(long_buffers_are_right),
		cmocka_unit_test(pieces_chain),
		cmocka_unit_test(no_more_is_read_than_is_given),
		cmocka_unit_test(the_selected_engine_is_the_best_that_there_is),
		cmocka_unit_test(powers_multiply_as_exponents_add),
		cmocka_unit_test(a_zero_byte_multiplies_the_register_by_x_to_the_8),
		cmocka_unit_test(all_bytes_are_multiplied_at_once),
	};

	return engines_run(tests, ARRAY_SIZE(tests), make_noise);
}
