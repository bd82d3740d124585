// SPDX-License-Identifier: BSD-2-Clause
#include "through/followed.h"

#include "base/lock.h"

#define CONTEXTS 64 /* contexts at once; others are not followed */

static struct followed followed[CONTEXTS];
static struct lock followed_lock = LOCK_RANKED(THROUGH_FOLLOWED); /* taken to find a free place */

struct followed *followed_of(const struct ibv_context *context)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (followed[i].context == context)
			return &followed[i];
	return NULL;
}

struct followed *followed_add(const struct ibv_context *context)
{
	struct followed *f;

	lock_take(&followed_lock);
	f = followed_of(NULL);
	if (f) {
		f->ops = context->ops;
		f->context = context;
	}
	lock_drop(&followed_lock);
	return f;
}

void followed_drop(const struct ibv_context *context)
{
	struct followed *f = followed_of(context);

	if (f)
		f->context = NULL;
}
