/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/pace.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

#define LEAST	   2048 /* bytes: fewer are soon there either way, and tell nothing */
#define FAST	   6	/* bytes a ns: at least 8 where a cache is shared, 3 at most where none is */
#define SURE	   3	/* slow ones in a row: the first may have been interrupted */
#define LOOK_NEXT  16	/* copies between two looks */
#define LOOK_AGAIN 256	/* ... where one costs as much as many others */

#ifdef __x86_64__

static const bool can_pass = true;

static void store_past(char *to, const char *from, size_t length)
{
	size_t head = min_of(-(uintptr_t)to % CACHE_LINE, length);

	memcpy(to, from, head);
	for (to += head, from += head, length -= head; length >= CACHE_LINE; length -= CACHE_LINE)
		for (int i = 0; i < CACHE_LINE / 16; i++, to += 16, from += 16)
			_mm_stream_si128((__m128i *)to, _mm_loadu_si128((const __m128i *)from));
	memcpy(to, from, length);
}

/* Such stores come in no order with others, and other processors are told only by those what there is to read. */
static void close_ranks(void)
{
	_mm_sfence();
}

#else

static const bool can_pass = false;

static void store_past(char *to, const char *from, size_t length)
{
	memcpy(to, from, length);
}

static void close_ranks(void)
{
}

#endif

void pace_judge(struct pace *p, size_t length, uint64_t ns)
{
	bool slow = ns > length / FAST;

	p->slow = slow ? min_of(p->slow + 1, SURE) : 0;
	p->past = p->slow == SURE;
	p->left = p->past ? LOOK_AGAIN : slow ? 0 : LOOK_NEXT;
}

static void copy_timed(struct pace *p, char *to, const struct iovec *from, unsigned count, size_t length)
{
	uint64_t begin = clock_now();

	for (unsigned i = 0; i < count; to += from[i++].iov_len)
		memcpy(to, from[i].iov_base, from[i].iov_len);
	/* when the last line is here, too: it would be hidden where few are stored */
	atomic_thread_fence(memory_order_seq_cst);
	pace_judge(p, length, clock_now() - begin);
}

void pace_copy(struct pace *p, char *to, const struct iovec *from, unsigned count, size_t length)
{
	bool past = p->past && length >= LEAST;

	if (can_pass && length >= LEAST && !p->left--) {
		copy_timed(p, to, from, count, length);
		return;
	}
	for (unsigned i = 0; i < count; to += from[i++].iov_len)
		if (past)
			store_past(to, from[i].iov_base, from[i].iov_len);
		else
			memcpy(to, from[i].iov_base, from[i].iov_len);
	if (past)
		close_ranks();
}
