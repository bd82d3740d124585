/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/shareable.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fork.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/msan.h"
#include "base/tsan.h"
#include "memory/maps.h"
#include "memory/tuned.h"

struct piece {
	uint64_t start, end;
};

struct extent {
	uint64_t start, end; /* addresses at which it was made shareable; end 0: unused */
	uint32_t regions;    /* number of open regions */
};

struct arena {
	int fd;
	uint64_t inode;
	uint32_t device_major, device_minor;
	uint64_t page;
	struct lock lock;			 /* guards the fields below */
	struct extent *extent GUARDED_BY(&lock); /* [EXTENTS] */
	uint32_t used GUARDED_BY(&lock);	 /* one past the highest extent in use */
	uint32_t idle_limit GUARDED_BY(&lock);
	uint64_t idle_bytes GUARDED_BY(&lock);
	/* pages of open regions that are not, or not wholly, in the arena */
	struct piece private[PRIVATES] GUARDED_BY(&lock);
	uint32_t privates GUARDED_BY(&lock);
	uint32_t lost GUARDED_BY(&lock); /* number of such pieces that did not fit: nothing moves while it is not 0 */
};

static _Atomic(struct arena *) current; /* the arena of this process, for fork() and madvise() */
static _Atomic int own_threads;

void shareable_own_thread(int change)
{
	/* relaxed: a number that is too small only keeps memory from being made shareable; a thread decrements it
	 * before it ends */
	atomic_fetch_add_explicit(&own_threads, change, memory_order_relaxed);
}

static uint64_t down(const struct arena *a, uint64_t address)
{
	return address & ~(a->page - 1);
}

static uint64_t up(const struct arena *a, uint64_t address)
{
	return down(a, address + a->page - 1);
}

int arena_fd(const struct arena *a)
{
	return a ? a->fd : -1;
}

/* ---- other writers ---- */

static bool line_says(FILE *status, const char *name, unsigned long *value)
{
	char line[256];
	size_t length = strlen(name);

	while (fgets(line, sizeof(line), status))
		if (!strncmp(line, name, length))
			return sscanf(line + length, ":%lu", value) == 1;
	return false;
}

/* With a limit to the size of files, exceeding it would end the program by a signal. */
static bool may_grow(void)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur == RLIM_INFINITY;
}

/* True if the program has one thread, and no memory is locked or pinned. */
static bool is_alone(void)
{
	FILE *status = fopen("/proc/self/status", "rce");
	unsigned long locked = 1, pinned = 1, threads = 0;
	bool known;

	if (!status)
		return false;
	/* in the order of the file */
	known = line_says(status, "VmLck", &locked) && line_says(status, "VmPin", &pinned) &&
		line_says(status, "Threads", &threads);
	fclose(status);
	return known && !locked && !pinned &&
	       threads <= 1 + (unsigned long)atomic_load_explicit(&own_threads, memory_order_relaxed);
}

static bool shareable_is_open(const struct arena *a, uint64_t start, uint64_t end) REQUIRES(a->lock)
{
	if (a->lost)
		return true;
	for (uint32_t i = 0; i < a->privates; i++)
		if (a->private[i].start < end && start < a->private[i].end)
			return true;
	return false;
}

static void shareable_remember(struct arena *a, uint64_t start, uint64_t end) REQUIRES(a->lock)
{
	if (start >= end)
		return;
	if (a->privates == PRIVATES)
		a->lost++;
	else
		a->private[a->privates++] = (struct piece){start, end};
}

static void shareable_forget(struct arena *a, uint64_t start, uint64_t end) REQUIRES(a->lock)
{
	if (start >= end)
		return;
	for (uint32_t i = 0; i < a->privates; i++) {
		if (a->private[i].start == start && a->private[i].end == end) {
			a->private[i] = a->private[--a->privates];
			return;
		}
	}
	a->lost--;
}

/* ---- mappings of a region ---- */

bool arena_has(const struct arena *a, const struct mapping *m)
{
	return a && m->shared && !m->segment && m->inode == a->inode && m->device_major == a->device_major &&
	       m->device_minor == a->device_minor;
}

enum found {
	FOUND_OTHER,	 /* memory that cannot move, or a mixture */
	FOUND_PRIVATE,	 /* all of it can move */
	FOUND_SHAREABLE, /* all of it is in the arena, in one piece */
};

static enum found shareable_find(const struct arena *a, uint64_t start, uint64_t end, uint64_t *offset)
{
	enum found found = FOUND_OTHER;
	struct mapping m;
	struct maps maps;

	if (maps_open(&maps))
		return FOUND_OTHER;
	for (uint64_t at = start; at < end; at = m.end) {
		bool first = at == start;
		uint64_t here;

		if (maps_find(&maps, at, &m) || m.start > at) {
			found = FOUND_OTHER;
			break;
		}
		here = m.offset + (at - m.start);
		if (arena_has(a, &m) && (first || (found == FOUND_SHAREABLE && here == *offset + (at - start)))) {
			if (first)
				*offset = here;
			found = FOUND_SHAREABLE;
		} else if (!m.shared && !m.inode && !m.special && m.readable && m.writable &&
			   (first || found == FOUND_PRIVATE)) {
			found = FOUND_PRIVATE;
		} else {
			found = FOUND_OTHER;
			break;
		}
	}
	maps_close(&maps);
	/* an extent that the program made longer by mremap() */
	if (found == FOUND_SHAREABLE && (*offset >> EXTENT_SHIFT) != ((*offset + (end - start) - 1) >> EXTENT_SHIFT))
		return FOUND_OTHER;
	return found;
}

/* ---- moving ---- */

#define PAGE_PRESENT (1ull << 63)
#define PAGE_SWAPPED (1ull << 62)

static bool copy_run(struct arena *a, uint64_t from, uint64_t to, uint64_t offset)
{
	while (from < to) {
		ssize_t n = pwrite(a->fd, (void *)(uintptr_t)from, to - from, (off_t)offset);

		if (n <= 0)
			return false;
		from += (uint64_t)n;
		offset += (uint64_t)n;
	}
	return true;
}

/* Copies the pages that are present or swapped. */
static bool copy_chunk(struct arena *a, int pagemap, uint64_t start, uint64_t end, uint64_t offset)
{
	uint64_t run = 0, entry[512];

	for (uint64_t at = start; at < end;) {
		size_t count = min_of((end - at) / a->page, ARRAY_SIZE(entry));
		ssize_t n = pread(pagemap, entry, count * sizeof(*entry), (off_t)(at / a->page * sizeof(*entry)));

		if (n != (ssize_t)(count * sizeof(*entry)))
			return false;
		for (size_t i = 0; i < count; i++, at += a->page) {
			bool full = entry[i] & (PAGE_PRESENT | PAGE_SWAPPED);

			if (full && !run)
				run = at;
			if (!full && run) {
				if (!copy_run(a, run, at, offset + (run - start)))
					return false;
				run = 0;
			}
		}
	}
	return !run || copy_run(a, run, end, offset + (run - start));
}

/* Replaces shared by private memory, with the contents of the file. */
static bool make_private(int fd, uint64_t start, uint64_t end, uint64_t offset, int rights)
{
	size_t size = end - start;
	off_t base = (off_t)offset, stop = base + (off_t)size;
	char *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	off_t data = base, hole;

	if (copy == MAP_FAILED)
		return false;
	while (data < stop && (data = lseek(fd, data, SEEK_DATA)) >= 0 && data < stop) {
		hole = lseek(fd, data, SEEK_HOLE);
		hole = hole < 0 ? stop : min_of(hole, stop);
		while (data < hole) {
			ssize_t n = pread(fd, copy + (data - base), (size_t)(hole - data), data);

			if (n <= 0)
				goto err;
			data += n;
		}
	}
	if (rights != (PROT_READ | PROT_WRITE) && mprotect(copy, size, rights))
		goto err;
	if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)start) != MAP_FAILED)
		return true;
err:
	munmap(copy, size);
	return false;
}

static void punch(struct arena *a, uint64_t offset, uint64_t length)
{
	fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length);
}

static bool is_hole(uint64_t address)
{
	struct mapping m;
	struct maps maps;
	bool hole;

	if (maps_open(&maps))
		return false;
	hole = maps_find(&maps, address, &m) || m.start > address;
	maps_close(&maps);
	return hole;
}

/* Moves one chunk. False: it could not be mapped and stays where it is; *end is `start`. But if the kernel has unmapped
 * the old memory and then found that it has none, the contents are only in the file: then *end is the end of what has
 * to be copied back from there. */
static bool move_chunk(struct arena *a, int pagemap, uint64_t start, uint64_t *end, uint64_t offset)
{
	if (!copy_chunk(a, pagemap, start, *end, offset)) {
		*end = start;
		return false;
	}
	if (mmap((void *)(uintptr_t)start, *end - start, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
		 a->fd, (off_t)offset) != MAP_FAILED)
		return true;
	if (!is_hole(start))
		*end = start;
	return false;
}

/* Moves with all signals blocked, since signal handlers write too. */
static bool shareable_move(struct arena *a, uint64_t start, uint64_t end, uint64_t offset)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t at = start, next;
	bool ok = pagemap >= 0;
	sigset_t all, old;

	if (!ok)
		return false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (; ok && at < end; at = next) {
		next = min_of(end, at + MOVE_BYTES);
		ok = move_chunk(a, pagemap, at, &next, offset + (at - start));
	}
	if (!ok && at > start && !make_private(a->fd, start, at, offset, PROT_READ | PROT_WRITE))
		log_warn("memory at %#lx stays shared: too little is left to move it back", (unsigned long)start);
	else if (!ok)
		punch(a, offset, end - start);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(pagemap);
	return ok;
}

/* ---- extents ---- */

static void mark_mapped(struct arena *a, uint8_t *mapped) REQUIRES(a->lock)
{
	struct mapping m = {0};
	struct maps maps;

	if (maps_open(&maps)) {
		memset(mapped, 1, a->used);
		return;
	}
	for (uint64_t at = 0; !maps_find(&maps, at, &m); at = m.end)
		for (uint64_t o = m.offset; arena_has(a, &m) && o < m.offset + (m.end - m.start);
		     o = ((o >> EXTENT_SHIFT) + 1) << EXTENT_SHIFT)
			if (o >> EXTENT_SHIFT < a->used)
				mapped[o >> EXTENT_SHIFT] = 1;
	maps_close(&maps);
}

/* Frees the memory of extents that are not mapped in this process and have no region. */
static void shareable_collect(struct arena *a) REQUIRES(a->lock)
{
	uint32_t idle = 0;
	uint8_t *mapped = calloc(a->used + 1, 1);

	if (!mapped)
		return;
	mark_mapped(a, mapped);
	a->idle_bytes = 0;
	for (uint32_t i = 0; i < a->used; i++) {
		struct extent *e = &a->extent[i];

		if (!e->end || e->regions)
			continue;
		if (mapped[i]) {
			idle++;
			continue;
		}
		punch(a, (uint64_t)i << EXTENT_SHIFT, 1ull << EXTENT_SHIFT);
		*e = (struct extent){0};
	}
	free(mapped);
	a->idle_limit = max_of(2 * idle, (uint32_t)IDLE_EXTENTS);
}

static void collect_if_due(struct arena *a) REQUIRES(a->lock)
{
	uint32_t idle = 0;

	for (uint32_t i = 0; i < a->used && idle < a->idle_limit; i++)
		idle += a->extent[i].end && !a->extent[i].regions;
	if (idle >= a->idle_limit || a->idle_bytes > IDLE_BYTES)
		shareable_collect(a);
}

/* Index of a free extent; EXTENTS: none is left. */
static uint32_t take_extent(struct arena *a) REQUIRES(a->lock)
{
	uint32_t i = 0;

	while (i < EXTENTS && a->extent[i].end)
		i++;
	a->used = max_of(a->used, min_of(i + 1, EXTENTS));
	return i;
}

static bool shareable_private(struct arena *a, uint64_t start, uint64_t end, uint64_t *offset) REQUIRES(a->lock)
{
	uint32_t i;

	if (end - start > EXTENT_MAX || shareable_is_open(a, start, end) || !may_grow() || !is_alone())
		return false;
	collect_if_due(a);
	i = take_extent(a);
	if (i == EXTENTS)
		return false;
	*offset = (uint64_t)i << EXTENT_SHIFT;
	if (!shareable_move(a, start, end, *offset))
		return false;
	a->extent[i] = (struct extent){start, end, 0};
	a->idle_bytes += end - start;
	return true;
}

void *shareable_new(struct arena *a, uint64_t length)
{
	void *at = MAP_FAILED;
	uint32_t i;

	if (!a || length > EXTENT_MAX || !may_grow())
		return NULL;
	length = up(a, length);
	lock_take(&a->lock);
	collect_if_due(a);
	i = take_extent(a);
	if (i < EXTENTS)
		at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, a->fd,
			  (off_t)((uint64_t)i << EXTENT_SHIFT));
	if (at != MAP_FAILED) {
		madvise(at, length, MADV_DONTFORK); /* a child does not use it */
		a->extent[i] = (struct extent){(uintptr_t)at, (uintptr_t)at + length, 0};
		a->idle_bytes += length;
	}
	lock_drop(&a->lock);
	return at == MAP_FAILED ? NULL : at;
}

/* The parts of a region, in whole pages, that are not in the arena: before and after `mapped`. */
static struct piece before(const struct arena *a, uint64_t address, const struct shareable *w)
{
	return (struct piece){down(a, address), address + w->skip};
}

static struct piece shareable_after(const struct arena *a, uint64_t address, uint64_t length, const struct shareable *w)
{
	uint64_t end = address + length;

	if (end < address || up(a, end) < end) /* a region of the whole address space: `end` wraps */
		end = down(a, UINT64_MAX);
	return (struct piece){address + w->skip + w->mapped, up(a, end)};
}

void shareable_make(struct arena *a, void *address, uint64_t length, bool may_move, struct shareable *w)
{
	uint64_t from = (uintptr_t)address, start, end;
	enum found found = FOUND_OTHER;
	struct piece p;

	*w = (struct shareable){0};
	if (!a || !length)
		return;
	start = up(a, from);
	end = down(a, from + length);
	lock_take(&a->lock);
	if (start < end && may_move)
		found = shareable_find(a, start, end, &w->offset);
	if (found == FOUND_PRIVATE && shareable_private(a, start, end, &w->offset))
		found = FOUND_SHAREABLE;
	if (found == FOUND_SHAREABLE) {
		struct extent *e = &a->extent[w->offset >> EXTENT_SHIFT];

		w->mapped = end - start;
		w->skip = (uint32_t)(start - from);
		if (!e->regions++)
			a->idle_bytes -= min_of(a->idle_bytes, e->end - e->start);
	}
	p = before(a, from, w);
	shareable_remember(a, p.start, p.end);
	p = shareable_after(a, from, length, w);
	shareable_remember(a, p.start, p.end);
	lock_drop(&a->lock);
}

void shareable_release(struct arena *a, void *address, uint64_t length, const struct shareable *w)
{
	uint64_t from = (uintptr_t)address;
	struct piece p;

	if (!a || !length)
		return;
	lock_take(&a->lock);
	p = before(a, from, w);
	shareable_forget(a, p.start, p.end);
	p = shareable_after(a, from, length, w);
	shareable_forget(a, p.start, p.end);
	if (w->mapped) {
		struct extent *e = &a->extent[w->offset >> EXTENT_SHIFT];

		if (!--e->regions)
			a->idle_bytes += e->end - e->start;
	}
	lock_drop(&a->lock);
}

/* ---- fork ---- */

/* Passed between the handlers of one fork(). A pipe that the child closes when it has its copy; guarded by the lock of
 * the arena. */
static int forked[2] = {-1, -1};
static _Thread_local struct arena *fork_arena;

/* No analysis: shareable_emptied() calls it without the lock. A caller that knows of shareable memory also sees
 * `used`. */
NO_LOCK_ANALYSIS static bool has_extents(const struct arena *a)
{
	return a && a->used;
}

static void shareable_before_fork(void)
{
	struct arena *a = atomic_load_explicit(&current, memory_order_acquire);

	fork_arena = a;
	if (!a)
		return;
	lock_take(&a->lock);
	/* without a pipe the parent does not wait, and the child may see later writes of the parent */
	if (has_extents(a) && pipe2(forked, O_CLOEXEC))
		forked[0] = forked[1] = -1;
	lock_hand_over(&a->lock); /* to in_parent() or shareable_in_child() */
}

static void in_parent(void)
{
	struct arena *a = fork_arena;
	char byte;

	if (!a)
		return;
	lock_take_over(&a->lock);
	if (forked[0] >= 0) {
		close(forked[1]);
		while (read(forked[0], &byte, 1) < 0 && errno == EINTR)
			; /* until end of file: the child has its copy, or is dead */
		close(forked[0]);
		forked[0] = forked[1] = -1;
	}
	lock_drop(&a->lock);
}

/* Uses the mappings of the kernel: the program may have moved or unmapped memory that was made shareable. */
static void make_all_private(const struct arena *a)
{
	struct mapping m = {0};
	struct maps maps;

	if (maps_open(&maps))
		return;
	for (uint64_t at = 0; !maps_find(&maps, at, &m); at = m.end)
		if (arena_has(a, &m) && !make_private(a->fd, m.start, m.end, m.offset,
						      (m.readable ? PROT_READ : 0) | (m.writable ? PROT_WRITE : 0)))
			log_error("a child process shares memory with its parent: too little is left for a copy");
	maps_close(&maps);
}

static void shareable_in_child(void)
{
	struct arena *a = fork_arena;

	/* the child may open devices, with an arena of its own; its copy of the parent's arena is never used again */
	atomic_store_explicit(&current, NULL, memory_order_relaxed);
	atomic_store_explicit(&own_threads, 0, memory_order_relaxed);
	if (!a)
		return;
	lock_take_over(&a->lock);
	if (has_extents(a))
		make_all_private(a);
	if (forked[0] >= 0) {
		close(forked[0]);
		close(forked[1]);
		forked[0] = forked[1] = -1;
	}
	close(a->fd);
	a->fd = -1;
	lock_drop(&a->lock);
}

/* The child gets its copy before other parts, and handlers of the program, write to what they guard: it may be in
 * memory that the program has registered, freed and allocated again. */
__attribute__((constructor)) static void shareable_watch_forks(void)
{
	static const struct fork_handlers handlers = {shareable_before_fork, in_parent, shareable_in_child};

	fork_watch(FORK_SHAREABLE, &handlers);
}

/* ---- */

void shareable_emptied(void *address, uint64_t length)
{
	/* acquire pairs with arena_get() */
	struct arena *a = atomic_load_explicit(&current, memory_order_acquire);
	uint64_t start = (uintptr_t)address, end = start + length;
	struct mapping m = {0};
	struct maps maps;

	/* errno stays: an allocator may be the caller */
	if (likely(!has_extents(a)) || maps_open(&maps))
		return;
	for (uint64_t at = start; at < end && !maps_find(&maps, at, &m) && m.start < end; at = m.end) {
		uint64_t from = max_of(start, m.start), to = min_of(end, m.end);

		if (arena_has(a, &m))
			punch(a, m.offset + (from - m.start), to - from);
	}
	maps_close(&maps);
}

static bool identify(struct arena *a)
{
	struct stat st;

	if (fstat(a->fd, &st))
		return false;
	a->inode = st.st_ino;
	a->device_major = major(st.st_dev);
	a->device_minor = minor(st.st_dev);
	return true;
}

static struct arena *make_arena(void)
{
	size_t extents = EXTENTS * sizeof(struct extent);
	struct arena *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	lock_assert_unshared(&a->lock);
	lock_set_rank(&a->lock, RANK_ARENA);
	a->page = (uint64_t)sysconf(_SC_PAGESIZE);
	a->idle_limit = IDLE_EXTENTS;
	a->extent = mmap(NULL, extents, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	a->fd = memfd_of_size("uroce-memory", 0, (uint64_t)EXTENTS << EXTENT_SHIFT);
	if (a->extent == MAP_FAILED || a->fd < 0 || !identify(a)) {
		if (a->extent != MAP_FAILED)
			munmap(a->extent, extents);
		if (a->fd >= 0)
			close(a->fd);
		free(a);
		return NULL;
	}
	return a;
}

struct arena *arena_get(void)
{
	static struct lock making = LOCK_RANKED(ARENA_MAKING);
	struct arena *a;

	/* only local peers map it */
	if (!config_bool(CONFIG_ADOPT) || !config_bool(CONFIG_LOCAL) || msan_is_there() || tsan_sees_peers ||
	    !may_grow())
		return NULL;
	lock_take(&making);
	a = atomic_load_explicit(&current, memory_order_acquire);
	if (!a) {
		a = make_arena();
		/* release pairs with shareable_emptied() and shareable_before_fork() */
		atomic_store_explicit(&current, a, memory_order_release);
	}
	lock_drop(&making);
	return a;
}
