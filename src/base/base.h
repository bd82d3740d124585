/* SPDX-License-Identifier: BSD-2-Clause */
/* What every layer uses: branch hints, container_of, array sizes, time units. */
#ifndef UROCE_BASE_H
#define UROCE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x)     __builtin_expect(!!(x), 1)
#define unlikely(x)   __builtin_expect(!!(x), 0)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CACHE_LINE    64

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define min_of(a, b)                           \
	({                                     \
		__auto_type min_a = (a);       \
		__auto_type min_b = (b);       \
		min_a < min_b ? min_a : min_b; \
	})
#define max_of(a, b)                           \
	({                                     \
		__auto_type max_a = (a);       \
		__auto_type max_b = (b);       \
		max_a > max_b ? max_a : max_b; \
	})

/* Every time inside uroce is a count of nanoseconds on CLOCK_MONOTONIC. */
#define USEC  1000ull
#define MSEC  1000000ull
#define SEC   1000000000ull
#define NEVER UINT64_MAX

#endif
