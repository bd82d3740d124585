/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of the locks: lock_rank.def. A thread that holds a lock takes only those that come after it there. Builds
 * with a sanitizer define UROCE_LOCK_RANKS: then a lock has its rank, each thread a list of what it holds, and taking a
 * lock out of order ends the process with the names and places of both. Other builds have none of this.
 *
 * Each library that links base/lock.c has lists of its own: liburoce-rsocket.so's locks come before all of
 * liburoce.so.1's, and that is not checked. */
#ifndef UROCE_LOCK_RANK_H
#define UROCE_LOCK_RANK_H

#include <stdbool.h>

enum lock_rank {
	RANK_NONE, /* of a lock to which nobody gave a rank: it must not be taken */
#define LOCK_RANK(name, lock, guards) RANK_##name,
#include "base/lock_rank.def"
#undef LOCK_RANK
	LOCK_RANKS
};

#ifdef UROCE_LOCK_RANKS
struct lock;

/* Before the lock is taken: checks the order, and adds the lock to the thread's list. Returns it. `place`: file and
 * line. */
struct lock *rank_take(struct lock *l, const char *place);
/* lock_try() has returned `taken`. Adds the lock, without a check: this thread would not have waited. Returns `taken`.
 */
bool rank_tried(bool taken, struct lock *l, const char *place);
/* Before the lock is dropped: ends the process unless this thread holds it. Returns it. */
struct lock *rank_drop(struct lock *l, const char *place);
/* Ends the process unless this thread holds the lock. Returns it. */
struct lock *rank_held(struct lock *l, const char *place);
#endif

#endif
