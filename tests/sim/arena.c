/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena.h"

#include <stdlib.h>
#include <string.h>

#include "own.h"

void arena_init(struct arena *a, uint32_t size, struct dice *dice)
{
	a->size = (size + 63) & ~63u;
	a->real = own_aligned(a->size);
	a->model = own_aligned(a->size);
	arena_fill(a, (struct piece){0, a->size}, dice);
}

void arena_fini(struct arena *a)
{
	free(a->real);
	free(a->model);
	*a = (struct arena){0};
}

void arena_fill(struct arena *a, struct piece p, struct dice *dice)
{
	uint64_t value = dice_roll(dice) | 1, word;
	uint8_t *to = a->real + p.offset;

	for (uint32_t at = 0; at < p.length; at += sizeof(word)) {
		value *= 0xda942042e4dd58b5u;
		word = value ^ (value >> 32);
		memcpy(to + at, &word, min_of((uint32_t)sizeof(word), p.length - at));
	}
	memcpy(a->model + p.offset, to, p.length);
}

void arena_expect(struct arena *a, uint32_t offset, const void *bytes, uint32_t length)
{
	if (length)
		memcpy(a->model + offset, bytes, length);
}

void arena_adopt(struct arena *a, struct piece p)
{
	memcpy(a->model + p.offset, a->real + p.offset, p.length);
}

int64_t arena_difference(const struct arena *a, struct piece p)
{
	if (!memcmp(a->real + p.offset, a->model + p.offset, p.length))
		return -1;
	for (uint32_t i = 0; i < p.length; i++)
		if (a->real[p.offset + i] != a->model[p.offset + i])
			return p.offset + i;
	return -1;
}

void space_init(struct space *s, uint32_t offset, uint32_t size)
{
	*s = (struct space){.offset = offset, .size = size};
}

void space_fini(struct space *s)
{
	free(s->busy);
	s->busy = NULL;
}

static bool is_free(const struct space *s, uint32_t offset, uint32_t length)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (offset < s->busy[i].offset + s->busy[i].length && s->busy[i].offset < offset + length)
			return false;
	return true;
}

bool space_take(struct space *s, struct dice *dice, uint32_t length, uint32_t *offset)
{
	for (int tries = 0; length <= s->size && tries < 8; tries++) {
		*offset = s->offset + (uint32_t)dice_below(dice, s->size - length + 1);
		if (!is_free(s, *offset, length))
			continue;
		if (s->count == s->room) {
			s->room = s->room ? 2 * s->room : 16;
			s->busy = own(s->busy, s->room * sizeof(*s->busy));
		}
		s->busy[s->count++] = (struct piece){*offset, length};
		return true;
	}
	return false;
}

void space_give(struct space *s, uint32_t offset, uint32_t length)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->busy[i].offset == offset && s->busy[i].length == length) {
			s->busy[i] = s->busy[--s->count];
			return;
		}
	abort();
}
