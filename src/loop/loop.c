/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>

_Atomic(struct loop *) loop_current;
struct lock loop_life = LOCK_RANKED(LOOP_LIFE);

/* The last context, or the last thread after loop_pin(), frees the loop. */
void loop_drop_user(struct loop *l, bool is_context)
{
	bool last;

	if (loop_is_inert(l))
		return; /* a child's copy, which belongs to the parent */
	lock_take(&loop_life);
	if (!is_context)
		l->pins--;
	else if (--l->users == 0)
		l->end(l);
	last = !l->users && !l->pins;
	lock_drop(&loop_life);
	if (last)
		l->free(l);
}

struct loop *loop_pin(void)
{
	struct loop *l;

	lock_take(&loop_life);
	l = atomic_load_explicit(&loop_current, memory_order_relaxed);
	if (l)
		l->pins++;
	lock_drop(&loop_life);
	return l;
}

void loop_unpin(struct loop *l)
{
	if (l)
		loop_drop_user(l, false);
}

bool loop_exists(void)
{
	return atomic_load_explicit(&loop_current, memory_order_relaxed);
}

struct loop *loop_hold(void) ACQUIRE(loop_life)
{
	lock_take(&loop_life);
	return atomic_load_explicit(&loop_current, memory_order_relaxed);
}

void loop_release(void) RELEASE(loop_life)
{
	lock_drop(&loop_life);
}
