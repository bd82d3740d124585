// SPDX-License-Identifier: BSD-2-Clause
#include "through/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "check/events.h"
#include "base/lock.h"

#define BUCKETS 1024u

static struct lock shadows_lock = LOCK_RANKED(THROUGH_SHADOWS);
static struct shadow *shadows[BUCKETS] GUARDED_BY(shadows_lock);

static struct shadow **shadow_bucket(enum check_kind kind, const void *real) REQUIRES(shadows_lock)
{
	return &shadows[((uintptr_t)real >> 4 ^ (uintptr_t)real >> 14 ^ (uintptr_t)kind) % BUCKETS];
}

struct shadow *shadow_make(enum check_kind kind, void *real)
{
	struct shadow *s = aligned_alloc(_Alignof(struct shadow), sizeof(*s));

	if (!s)
		return NULL;
	memset(s, 0, sizeof(*s));
	s->kind = kind;
	s->real = real;
	return s;
}

void shadow_add(struct shadow *s)
{
	struct shadow **bucket;

	lock_take(&shadows_lock);
	bucket = shadow_bucket(s->kind, s->real);
	s->next = *bucket;
	*bucket = s;
	lock_drop(&shadows_lock);
}

struct shadow *shadow_of(enum check_kind kind, const void *real)
{
	struct shadow *s;

	lock_take(&shadows_lock);
	s = *shadow_bucket(kind, real);
	while (s && (s->real != real || s->kind != kind))
		s = s->next;
	lock_drop(&shadows_lock);
	return s;
}

void shadow_await_acknowledged(const struct shadow *s, const char *function)
{
	uint32_t fetched = s ? __atomic_load_n(&s->fetched, __ATOMIC_RELAXED) : 0;

	/* acquire, as in check_unacknowledged(): the shadow is freed then, and the thread that acknowledged used it */
	if (s && fetched > __atomic_load_n(&s->acknowledged, __ATOMIC_ACQUIRE))
		check_unacknowledged(function, &(struct awaited){&s->acknowledged, fetched, NULL, NULL});
}

void shadow_drop(struct shadow *s)
{
	struct shadow **link;

	lock_take(&shadows_lock);
	link = shadow_bucket(s->kind, s->real);
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	lock_drop(&shadows_lock);
	free(s);
}
