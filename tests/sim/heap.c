/* SPDX-License-Identifier: BSD-2-Clause */
#include "heap.h"

#include <stdbool.h>
#include <stdlib.h>

#include "own.h"

static bool is_before(const struct due *a, const struct due *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void due_push(struct due_heap *h, struct due *d)
{
	uint32_t i;

	if (h->count == h->room) {
		h->room = h->room ? 2 * h->room : 256;
		h->all = own(h->all, h->room * sizeof(*h->all));
	}
	for (i = h->count++; i && is_before(d, h->all[(i - 1) / 2]); i = (i - 1) / 2)
		h->all[i] = h->all[(i - 1) / 2];
	h->all[i] = d;
}

struct due *due_pop(struct due_heap *h)
{
	struct due *top = h->all[0], *last = h->all[--h->count];
	uint32_t i = 0;

	for (uint32_t child; (child = 2 * i + 1) < h->count; i = child) {
		if (child + 1 < h->count && is_before(h->all[child + 1], h->all[child]))
			child++;
		if (!is_before(h->all[child], last))
			break;
		h->all[i] = h->all[child];
	}
	h->all[i] = last;
	return top;
}

void due_fini(struct due_heap *h)
{
	for (uint32_t i = 0; i < h->count; i++)
		free(h->all[i]);
	free(h->all);
}
