// SPDX-License-Identifier: BSD-2-Clause
#include "exchange.h"

uint8_t pattern(uint32_t message, uint32_t i)
{
	return (uint8_t)(message * 59 + i * 7 + (i >> 8) * 13 + 3);
}

void fill(uint8_t *at, uint32_t message, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		at[i] = pattern(message, i);
}

void check_data(const char *what, const uint8_t *at, uint32_t message, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		CHECK(at[i] == pattern(message, i), "%s %u: byte %u of %u is %02x, not %02x", what, message, i, length,
		      at[i], pattern(message, i));
	for (uint32_t i = length; i < length + 64; i++)
		CHECK(at[i] == 0, "%s %u: byte %u behind its %u bytes was written", what, message, i - length, length);
}
