/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory made shareable: private memory that a program registers is moved into a memfd, the arena, so that local peers
 * can map it and a WRITE is a memcpy. The whole pages inside a region move; they keep their addresses, contents and
 * rights, and pages that were never touched stay untouched.
 *
 * Moving is copying and then mapping over, so nothing may write in between:
 * - The program has one thread, which is this one, with signals blocked. (Threads of uroce, which call
 * shareable_own_thread(), write only to open regions.)
 * - No page of another open region moves: local peers and threads of uroce might write through that region.
 * - The kernel has not locked or pinned any memory (mlock, io_uring); otherwise nothing moves.
 * Only private anonymous memory that can be read and written moves: no stacks, no files, nothing that is shared
 * already. If any of that does not hold, or memory or address space is short, the region stays as it is.
 *
 * Afterwards it is shared memory. It differs from private memory as follows:
 * - fork: the child gets its own copy in the child handler of pthread_atfork(3); the parent waits for that, so that it
 * is a copy as of the fork. vfork and posix_spawn work as before. A child made by a bare clone(2) shares the memory.
 * - madvise(MADV_DONTNEED) must empty the pages: uroce interposes that function, see shareable_emptied().
 * - munmap, mremap, free: as before. Memory that no mapping uses any more is freed when the next region is made
 * shareable. Memory stays shareable when its region is deregistered: to register it again costs nothing. */
#ifndef UROCE_SHAREABLE_H
#define UROCE_SHAREABLE_H

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* The part of a region that is in the arena: `mapped` bytes from `skip` on, at `offset`. */
struct shareable {
	uint64_t offset, mapped; /* mapped 0: no part */
	uint32_t skip;
};

/* Extents are the pieces of an arena that are made shareable at a time. They are at multiples of 1 << EXTENT_SHIFT: so
 * a mapping that the program enlarges does not run into another extent, and an offset tells its extent. */
#define EXTENT_SHIFT 40
#define EXTENTS	     65536u

/* The arena of this process. It stays as long as the process, as memory is mapped from it. NULL: not wanted
 * (UROCE_ADOPT=off, UROCE_LOCAL=off, or a limit to the size of files), or out of memory. */
struct arena *arena_get(void);
int arena_fd(const struct arena *a); /* -1: `a` is NULL */
struct mapping;
bool arena_has(const struct arena *a, const struct mapping *m);

/* Call it before a region is opened: makes the region shareable where possible, and moves memory only if `may_move`.
 * Pages of a region that is open already are found again. Call shareable_release() with the same values when the region
 * is closed. */
void shareable_make(struct arena *a, void *address, uint64_t length, bool may_move, struct shareable *where);
/* New shareable memory for uroce itself; free it by munmap(2). NULL: none. */
void *shareable_new(struct arena *a, uint64_t length);
void shareable_release(struct arena *a, void *address, uint64_t length, const struct shareable *where);

/* A thread of uroce has been created (+1), or is going to end (-1), which it reports itself. */
void shareable_own_thread(int change);

/* The program has told the kernel that it does not need the contents of this memory, and expects to read zeros. */
void shareable_emptied(void *address, uint64_t length);

#endif
