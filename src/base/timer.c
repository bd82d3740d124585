/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timer.h"

#include <errno.h>
#include <stdlib.h>

void timers_init(struct timers *t)
{
	*t = (struct timers){.lock = LOCK_RANKED(TIMERS), .next = NEVER};
}

void timers_fini(struct timers *t)
{
	lock_assert_unshared(&t->lock);
	free(t->heap);
	t->heap = NULL;
}

static void timer_publish(struct timers *t) REQUIRES(t->lock)
{
	atomic_store_explicit(&t->next, t->count ? t->heap[1]->when : NEVER, memory_order_relaxed);
}

static void timer_place(struct timers *t, uint32_t slot, struct timer *timer) REQUIRES(t->lock)
{
	t->heap[slot] = timer;
	timer->slot = slot;
}

static void sift_up(struct timers *t, uint32_t slot, struct timer *timer) REQUIRES(t->lock)
{
	for (; slot > 1 && t->heap[slot / 2]->when > timer->when; slot /= 2)
		timer_place(t, slot, t->heap[slot / 2]);
	timer_place(t, slot, timer);
}

static void sift_down(struct timers *t, uint32_t slot, struct timer *timer) REQUIRES(t->lock)
{
	for (uint32_t child; (child = 2 * slot) <= t->count; slot = child) {
		if (child < t->count && t->heap[child + 1]->when < t->heap[child]->when)
			child++;
		if (t->heap[child]->when >= timer->when)
			break;
		timer_place(t, slot, t->heap[child]);
	}
	timer_place(t, slot, timer);
}

static void timer_drop(struct timers *t, struct timer *timer) REQUIRES(t->lock)
{
	struct timer *last = t->heap[t->count--];
	uint32_t slot = timer->slot;

	timer->slot = 0;
	if (last == timer)
		return;
	sift_up(t, slot, last);
	sift_down(t, last->slot, last);
}

int timers_join(struct timers *t)
{
	int err = 0;

	lock_take(&t->lock);
	if (t->members + 2 > t->room) { /* heap[0] is not used */
		uint32_t room = t->room ? 2 * t->room : 64;
		struct timer **heap = realloc(t->heap, room * sizeof(struct timer *));

		if (heap) {
			t->heap = heap;
			t->room = room;
		} else {
			err = -ENOMEM;
		}
	}
	t->members += !err;
	lock_drop(&t->lock);
	return err;
}

void timers_leave(struct timers *t, struct timer *timer)
{
	lock_take(&t->lock);
	if (timer->slot) {
		timer_drop(t, timer);
		timer_publish(t);
	}
	t->members--;
	lock_drop(&t->lock);
}

bool timer_set(struct timers *t, struct timer *timer, uint64_t when)
{
	bool first = false;

	lock_take(&t->lock);
	if (!timer->slot) {
		timer->when = when;
		sift_up(t, ++t->count, timer);
		first = timer->slot == 1;
	} else if (when < timer->when) {
		timer->when = when;
		sift_up(t, timer->slot, timer);
		first = timer->slot == 1;
	}
	timer_publish(t);
	lock_drop(&t->lock);
	return first;
}

struct timer *timers_pop(struct timers *t, uint64_t now)
{
	struct timer *timer = NULL;

	if (timers_next(t) > now)
		return NULL;
	lock_take(&t->lock);
	if (t->count && t->heap[1]->when <= now) {
		timer = t->heap[1];
		timer_drop(t, timer);
		timer_publish(t);
	}
	lock_drop(&t->lock);
	return timer;
}
