// SPDX-License-Identifier: BSD-2-Clause
/* How fast the ICRC's arithmetic is: prints "engine size GB/s" for each CRC engine that this machine has (the
 * one that uroce selects is marked), and for memcpy, over data in the cache. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "wire/crc.h"

enum { ROUNDS = 7 };
#define SAMPLE_NS 20000000ull

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}

static uint32_t copy(uint32_t unused, const uint8_t *bytes, uint64_t n)
{
	static uint8_t to[4096] __attribute__((aligned(64)));

	memcpy(to, bytes, n);
	__asm__ volatile("" : : "r"(to) : "memory");
	return unused;
}

/* The best of several: what else runs can only make it slower. */
static double measure(crc_function *f, size_t size)
{
	static uint8_t bytes[4096] __attribute__((aligned(64)));
	volatile uint32_t sink = 0;
	double best = 0;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = now(), n = 0, t;

		do {
			for (int k = 0; k < 256; k++)
				sink = f(sink, bytes, size);
			n += 256 * size;
		} while ((t = now()) - begin < SAMPLE_NS);
		best = max_of(best, (double)n / (double)(t - begin));
	}
	return best;
}

int main(void)
{
	static const size_t sizes[] = {64, 1024, 4096};
	const struct crc_engine *chosen = crc_init();

	for (unsigned i = 0; i <= crc_engine_count; i++) {
		const struct crc_engine *e = i < crc_engine_count ? &crc_engines[i] : NULL;
		crc_function *f = e ? e->find() : copy;

		for (size_t s = 0; f && s < ARRAY_SIZE(sizes); s++)
			printf("%s%s %zu %.2f\n", e ? e->name : "memcpy", e == chosen ? "*" : "", sizes[s],
			       measure(f, sizes[s]));
	}
	return 0;
}
