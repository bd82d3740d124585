/* SPDX-License-Identifier: BSD-2-Clause */
/* SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash. Without the key, the hashes of some values reveal nothing
 * about those of others. */
#ifndef UROCE_SIPHASH_H
#define UROCE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct siphash_key {
	uint64_t k[2];
};

static inline uint64_t siphash_rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static inline void siphash_rounds(uint64_t v[4], int rounds)
{
	while (rounds--) {
		v[0] += v[1], v[1] = siphash_rotate(v[1], 13) ^ v[0], v[0] = siphash_rotate(v[0], 32);
		v[2] += v[3], v[3] = siphash_rotate(v[3], 16) ^ v[2];
		v[0] += v[3], v[3] = siphash_rotate(v[3], 21) ^ v[0];
		v[2] += v[1], v[1] = siphash_rotate(v[1], 17) ^ v[2], v[2] = siphash_rotate(v[2], 32);
	}
}

static inline void siphash_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	siphash_rounds(v, 2);
	v[0] ^= word;
}

/* Reads words in host byte order: a hash is made and compared in the same process. */
static inline uint64_t siphash(const struct siphash_key *key, const void *data, size_t length)
{
	uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d, key->k[0] ^ 0x6c7967656e657261,
			 key->k[1] ^ 0x7465646279746573};
	const uint8_t *at = data, *end = at + length / 8 * 8;
	uint64_t word, last = (uint64_t)length << 56;

	for (; at < end; at += 8) {
		memcpy(&word, at, 8);
		siphash_word(v, word);
	}
	for (size_t i = 0; i < length % 8; i++)
		last |= (uint64_t)at[i] << 8 * i;
	siphash_word(v, last);
	v[2] ^= 0xff;
	siphash_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
