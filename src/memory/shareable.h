/* SPDX-License-Identifier: BSD-2-Clause */
/* Adopted regions: private memory that a program registers moves into a memfd, the arena, so that local peers can map
 * it and a WRITE is a memcpy. Of a region, the whole pages inside move; they keep their addresses, contents and rights,
 * and what was never touched stays so.
 *
 * Moving is copying and then mapping over, so nobody may write in between:
 * - The program has one thread, which is here, with its signals blocked. (uroce's own threads, which say so by
 * shareable_own_thread(), write to open regions only.)
 * - No page moves that an open region of ours has, but the registered one: through that, local peers and our own
 * threads might write.
 * - Nothing is locked or pinned by the kernel for others (mlock, io_uring): then nothing moves.
 * Only private anonymous memory that can be read and written moves: no stacks, no files, nothing shared already.
 * If any of that is not so, or memory or address space is short, the region stays as it is.
 *
 * Afterwards it is shared memory, with these differences from private memory, and what is done about them:
 * - fork: the child gets a copy of its own in pthread_atfork(3)'s child handler; the parent waits for that, so that it
 * is a copy as of the fork. vfork and posix_spawn are as ever. A child made by a bare clone(2) shares the memory.
 * - madvise(MADV_DONTNEED) is to empty the pages: we stand in front of that function, see shareable_emptied().
 * - munmap, mremap, free: as ever. Memory that no mapping uses any more is given back when the next region is made
 * shareable. Memory stays made shareable when its region is deregistered: to register it again costs nothing. */
#ifndef UROCE_SHAREABLE_H
#define UROCE_SHAREABLE_H

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* Where the middle of a region went: `mapped` bytes from `skip` on are in the arena from `offset` on. */
struct shareable {
	uint64_t offset, mapped; /* mapped 0: nothing of it */
	uint32_t skip;
};

/* Extents, the pieces of an arena that are made shareable at a time, lie at multiples of this: so a mapping that the
 * program makes larger does not run into another, and an offset tells its extent. */
#define EXTENT_SHIFT 40
#define EXTENTS	     65536u

/* The one arena of this process; it stays as long as the process does, as what is made shareable is mapped from it.
 * NULL: not wanted (UROCE_ADOPT=off, UROCE_LOCAL=off, or a limit to the size of files), or no memory. */
struct arena *arena_get(void);
int arena_fd(const struct arena *a); /* -1: `a` is NULL */
struct mapping;
bool arena_has(const struct arena *a, const struct mapping *m);

/* A region is about to be opened: adopts what can be, if it may. Pages of a region that is open already are found
 * again. To be followed by shareable_release() when the region is closed, in the same words. */
void shareable_make(struct arena *a, void *address, uint64_t length, bool may_move, struct shareable *where);
/* Fresh memory that is made shareable from the beginning, for our own use; it is given back by munmap(2). NULL: there
 * is none. */
void *shareable_new(struct arena *a, uint64_t length);
void shareable_release(struct arena *a, void *address, uint64_t length, const struct shareable *where);

/* A thread of ours, not of the program, has been made (+1), or is about to end (-1): that it says itself. */
void shareable_own_thread(int change);

/* The program has told the kernel that it does not need the contents of this memory, and may expect zeros. */
void shareable_emptied(void *address, uint64_t length);

#endif
