/* SPDX-License-Identifier: BSD-2-Clause */
/* What stands in memory that the processes which have an XRC target open share, so that it goes on with another of them
 * when the one that it is in, its home, closes it or dies, however it dies (loop/heir.h). The home writes it before it
 * answers what changed it; others look at it when the home is no more. verbs/far_qp.c makes and frees it. */
#ifndef UROCE_KEEP_H
#define UROCE_KEEP_H

#include "object/qp.h"

/* How far the QP has come. */
struct kept {
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;
	struct path path; /* but for its pointers */
	struct away away;
	psn_t expected;
	uint32_t msn;
	uint8_t failed;
};

struct keep_memory {
	_Atomic uint32_t home;	/* its slot. 0: it has let go. Changed by compare-and-swap: acquire and release, as the
				 * loser uses  what the winner has made before */
	_Atomic uint32_t which; /* the one that is whole: its writer may be killed while it writes the other */
	struct kept kept[2];
};

struct keep {
	struct keep_memory *memory;
	int fd;	  /* of it */
	int name; /* keeps the slot of the QP's number, as slot_keep() says */
};

static inline void keep_write(struct keep *k, const struct kept *now)
{
	/* relaxed: we are the only writer */
	uint32_t other = !atomic_load_explicit(&k->memory->which, memory_order_relaxed);

	k->memory->kept[other] = *now;
	atomic_store_explicit(&k->memory->which, other, memory_order_release); /* pairs with keep_read() */
}

static inline struct kept keep_read(const struct keep *k)
{
	return k->memory->kept[atomic_load_explicit(&k->memory->which, memory_order_acquire) & 1];
}

#endif
