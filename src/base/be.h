/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers in wire format: big-endian, in one-member structs, so that a forgotten swap does not compile. Unaligned
 * access is fine: the structs are packed to alignment 1. */
#ifndef UROCE_BE_H
#define UROCE_BE_H

#include <endian.h>
#include <stdint.h>

typedef struct __attribute__((packed)) {
	uint16_t raw;
} be16;
typedef struct __attribute__((packed)) {
	uint32_t raw;
} be32;
typedef struct __attribute__((packed)) {
	uint64_t raw;
} be64;

static inline be16 to_be16(uint16_t v)
{
	return (be16){htobe16(v)};
}
static inline be32 to_be32(uint32_t v)
{
	return (be32){htobe32(v)};
}
static inline be64 to_be64(uint64_t v)
{
	return (be64){htobe64(v)};
}
static inline uint16_t from_be16(be16 v)
{
	return be16toh(v.raw);
}
static inline uint32_t from_be32(be32 v)
{
	return be32toh(v.raw);
}
static inline uint64_t from_be64(be64 v)
{
	return be64toh(v.raw);
}

#endif
