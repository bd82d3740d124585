/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32 of Ethernet (reflected 0xEDB88320), by the fastest engine on this machine: ISA-L if its library is installed,
 * else carry-less multiplication or CRC instructions of the processor, else tables. Values are as in zlib: start with
 * 0, inverted before and after, so pieces chain. Any thread may call. */
#ifndef UROCE_CRC_H
#define UROCE_CRC_H

#include "base/base.h"

typedef uint32_t crc_function(uint32_t crc, const uint8_t *bytes, uint64_t n);

struct crc_engine {
	const char *name;
	crc_function *(*find)(void); /* the engine's function; NULL: this machine does not have it */
};

/* The engines, best first; the last one always works. */
extern const struct crc_engine crc_engines[];
extern const unsigned crc_engine_count;

/* Makes the tables and selects an engine, once; must be called before crc(). Returns the engine. */
const struct crc_engine *crc_init(void);

extern crc_function *crc_best;

static inline uint32_t crc(uint32_t before, const void *bytes, size_t n)
{
	return crc_best(before, bytes, n);
}

/* Arithmetic on polynomials modulo the CRC polynomial: bit 31 is the coefficient of x^0, as in the CRC register.
 * Feeding n zero bytes to a register multiplies it by x^(8n). */
#define CRC_POLYNOMIAL 0xedb88320u
#define CRC_ONE	       0x80000000u /* x^0 */

uint32_t crc_multiply(uint32_t a, uint32_t b);
/* x^n modulo the polynomial; n may be negative. crc_multiply(): the product of two polynomials. */
uint32_t crc_power(int64_t n);
/* product[b] is `by` times the byte b. Few are multiplied; the others are sums of these. */
void crc_multiples(uint32_t product[256], uint32_t by);

#endif
