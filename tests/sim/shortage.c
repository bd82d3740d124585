/* SPDX-License-Identifier: BSD-2-Clause */
#include "shortage.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"
#include "own.h"

struct shortage shortage;

void shortage_begin(uint64_t seed, double chance)
{
	static const double chances[] = {0.01, 0.1, 0.5};

	shortage.dice.state = seed * 0x9e3779b97f4a7c15u ^ 0x5407a9e;
	if (chance < 0)
		chance = dice_chance(&shortage.dice, 0.25) ? dice_pick(&shortage.dice, chances) : 0;
	shortage.chance = chance;
	shortage.refused = 0;
}

void shortage_end(void)
{
	shortage.chance = 0;
}

/* ---- what the linker puts in the place of the C library's ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *p);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *p);

static bool is_refused(void)
{
	if (own_depth || !shortage.chance || !dice_chance(&shortage.dice, shortage.chance))
		return false;
	shortage.refused++;
	errno = ENOMEM;
	return true;
}

static void *counted(void *p)
{
	shortage.pieces += p != NULL;
	shortage.bytes += malloc_usable_size(p);
	return p;
}

void *__wrap_malloc(size_t size)
{
	return is_refused() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return is_refused() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
	size_t before = malloc_usable_size(old);
	void *p = is_refused() ? NULL : __real_realloc(old, size);

	if (!p)
		return NULL;
	shortage.pieces -= old != NULL;
	shortage.bytes -= before;
	return counted(p);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return is_refused() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *p)
{
	shortage.pieces -= p != NULL;
	shortage.bytes -= malloc_usable_size(p);
	__real_free(p);
}
