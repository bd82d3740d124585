/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32 of Ethernet (reflected 0xEDB88320), by the fastest means that this machine has: ISA-L if its library
 * is installed, else the processor's carry-less multiplication or CRC instructions, else tables. Values are
 * as in zlib: starting from 0, inverted before and after, so pieces chain. Any thread may call. */
#ifndef UROCE_CRC_H
#define UROCE_CRC_H

#include "base/base.h"

typedef uint32_t crc_function(uint32_t crc, const uint8_t *bytes, uint64_t n);

struct crc_engine {
	const char *name;
	crc_function *(*find)(void); /* NULL: this machine does not have it */
};

/* Best first; the last one is always there. */
extern const struct crc_engine crc_engines[];
extern const unsigned crc_engine_count;

/* Makes the tables and selects an engine, once; whoever calls crc() has called this before. Returns the
 * engine. */
const struct crc_engine *crc_init(void);

extern crc_function *crc_best;

static inline uint32_t crc(uint32_t before, const void *bytes, size_t n)
{
	return crc_best(before, bytes, n);
}

/* Arithmetic on polynomials modulo the CRC's: bit 31 is the coefficient of x^0, as in a CRC's register.
 * A register that takes in n zero bytes is multiplied by x^(8n). */
#define CRC_POLYNOMIAL 0xedb88320u
#define CRC_ONE	       0x80000000u /* x^0 */

uint32_t crc_multiply(uint32_t a, uint32_t b);
/* x^n for n >= 0, or its inverse for n < 0. */
uint32_t crc_power(int64_t n);
/* The products of all bytes with it: a few are multiplied, of which the others are sums. */
void crc_multiples(uint32_t product[256], uint32_t by);

#endif
