/* SPDX-License-Identifier: BSD-2-Clause */
/* What is to happen, by its time; at equal times, in the order in which it was put there. */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include <stdint.h>

/* The first member of whatever is kept. */
struct due {
	uint64_t at, order;
};

struct due_heap {
	struct due **all; /* the first one is the next */
	uint32_t count, room;
};

void due_push(struct due_heap *h, struct due *d);
/* There is one. */
struct due *due_pop(struct due_heap *h);
/* Frees what is there, and the heap. */
void due_fini(struct due_heap *h);

#endif
