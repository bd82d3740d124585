/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies and atomics into memory that an application may be polling. Any thread may call. */
#ifndef UROCE_COPY_H
#define UROCE_COPY_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "base/tsan.h"

/* ThreadSanitizer has a lock of its own during an atomic, which must not fault then (fault.h). So the page is touched
 * first. */
static inline void touch_for_atomic(char *at)
{
#if defined(UNDER_TSAN) && defined(__x86_64__)
	__asm__ volatile("lock orb $0, %0" : "+m"(*at));
#else
	(void)at;
#endif
}

/* How many bytes at the end of the buffer are stored at once: 8 or 4 if the end is aligned to that, else 1; 0 if there
 * are none. */
static inline size_t copy_tail(const char *to, size_t length)
{
	return length >= 8 && !((uintptr_t)(to + length) & 7)	? 8
	       : length >= 4 && !((uintptr_t)(to + length) & 3) ? 4
								: length > 0;
}

/* Copies 16 to 64 bytes without a function call, in pieces that overlap. All pieces are loaded before any is stored, so
 * that source and destination may overlap. */
static inline void copy_some(char *to, const char *from, size_t length)
{
	struct piece {
		uint64_t word[2];
	} first, second, third, last;

	memcpy(&first, from, 16);
	memcpy(&last, from + length - 16, 16);
	if (length > 32) {
		memcpy(&second, from + 16, 16);
		memcpy(&third, from + length - 32, 16);
		memcpy(to + 16, &second, 16);
		memcpy(to + length - 32, &third, 16);
	}
	memcpy(to, &first, 16);
	memcpy(to + length - 16, &last, 16);
}

/* memmove() that starts at the front, as on a wire, where possible: some memmove()s start at the end without need. */
static inline void copy_bytes(char *to, const char *from, size_t length)
{
	if (length >= 16 && length <= 64)
		copy_some(to, from, length);
	else if (unlikely(to < from + length && from < to + length)) /* source and destination of a WRITE may overlap */
		memmove(to, from, length);
	else
		memcpy(to, from, length);
}

/* copy_bytes() that stores the last bytes last: programs poll the end of a buffer that a peer WRITEs, which works with
 * every RNIC. An aligned word at the end of the buffer is stored whole. */
static inline void copy_in_order(char *to, const void *from, size_t length)
{
	const char *src = from;
	size_t tail = copy_tail(to, length);
	uint64_t word = 0;
	uint32_t half = 0;
	char byte = 0;

	if (length == 0)
		return;
	length -= tail;
	if (tail == 8)
		memcpy(&word, src + length, 8);
	else if (tail == 4)
		memcpy(&half, src + length, 4);
	else
		byte = src[length];
	if (length)
		copy_bytes(to, src, length);
	touch_for_atomic(to + length);
	/* release pairs with the acquire of an application that polls the last byte */
	if (tail == 8)
		__atomic_store_n((uint64_t *)(to + length), word, __ATOMIC_RELEASE);
	else if (tail == 4)
		__atomic_store_n((uint32_t *)(to + length), half, __ATOMIC_RELEASE);
	else
		__atomic_store_n(to + length, byte, __ATOMIC_RELEASE);
}

/* RDMA atomics are CPU atomics, so they are atomic with respect to the threads of the target too. Both return the old
 * value. */
static inline uint64_t atomic_fetch_add_at(char *at, uint64_t add)
{
	touch_for_atomic(at);
	return __atomic_fetch_add((uint64_t *)at, add, __ATOMIC_SEQ_CST);
}

static inline uint64_t atomic_compare_swap_at(char *at, uint64_t compare, uint64_t swap)
{
	touch_for_atomic(at);
	__atomic_compare_exchange_n((uint64_t *)at, &compare, swap, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return compare;
}

#endif
