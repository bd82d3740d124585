/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of one end of a connection, and what the model says is in it. All of it, guards around the regions
 * included, must be as the model says when a run is over; ranges in doubt (a request failed half-way) are
 * excused. */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include "base/base.h"
#include "dice.h"

struct arena {
	uint8_t *real, *model;
	uint32_t size;
};

struct piece {
	uint32_t offset, length; /* in the arena */
};

/* A stretch of an arena from which pieces are handed out. */
struct space {
	uint32_t offset, size;
	struct piece *busy;
	uint32_t count, room;
};

void arena_init(struct arena *a, uint32_t size, struct dice *dice);
void arena_fini(struct arena *a);

/* The application writes: both real and model. */
void arena_fill(struct arena *a, struct piece p, struct dice *dice);
/* The model alone: what is to be there from now on. */
void arena_expect(struct arena *a, uint32_t offset, const void *bytes, uint32_t length);
/* Nobody can say what is there: the model takes over what is. */
void arena_adopt(struct arena *a, struct piece p);
/* Where real and model differ first; -1 if nowhere. */
int64_t arena_difference(const struct arena *a, struct piece p);

void space_init(struct space *s, uint32_t offset, uint32_t size);
void space_fini(struct space *s);
/* False: no room found. */
bool space_take(struct space *s, struct dice *dice, uint32_t length, uint32_t *offset);
void space_give(struct space *s, uint32_t offset, uint32_t length);

#endif
