/* SPDX-License-Identifier: BSD-2-Clause */
/* Exported files. Needed by perftest --use_hugepages (a SysV segment). 7 pairs of runs on one host with this file and
 * without, medians: ib_write_lat -s 8 0.31 us and 2.82, ib_read_lat -s 8 0.09 us and 2.23, ib_write_bw -s 65536 33.5
 * GB/s and 6.4. Without it, memory that a program shares itself is reached by process_vm_writev(2), and where Yama
 * forbids that, by packets. */
#include "memory/export.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "memory/gpu.h"
#include "memory/maps.h"
#include "memory/share.h"
#include "memory/shareable.h"

/* ---- the file behind a mapping ---- */

static bool export_is_same(int fd, const struct mapping *m)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_ino == m->inode && major(st.st_dev) == m->device_major &&
	       minor(st.st_dev) == m->device_minor;
}

/* Opens the file of a descriptor of this process again. */
static int open_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int open_by_descriptor(const struct mapping *m)
{
	DIR *list = opendir("/proc/self/fd");
	struct dirent *entry;
	int fd = -1;

	while (list && fd < 0 && (entry = readdir(list))) {
		int theirs =
			atoi(entry->d_name); /* 0 for "." and "..": harmless, as descriptor 0 is checked in any case */

		if (export_is_same(theirs, m))
			fd = open_again(theirs);
	}
	if (list)
		closedir(list);
	return fd;
}

static int open_by_path(const struct mapping *m)
{
	char name[64], path[4096];
	ssize_t length;
	int there, fd = -1;

	snprintf(name, sizeof(name), "/proc/self/map_files/%lx-%lx", (unsigned long)m->start, (unsigned long)m->end);
	fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	length = readlink(name, path, sizeof(path) - 1);
	if (length <= 0)
		return -1;
	path[length] = 0;
	there = open(path, O_PATH | O_CLOEXEC); /* O_PATH has no side effect, whatever file is there now */
	if (there >= 0 && export_is_same(there, m))
		fd = open_again(there);
	if (there >= 0)
		close(there);
	return fd;
}

/* True if the file is on a file system in memory. */
static bool is_of_memory(int fd)
{
	struct statfs st;

	return !fstatfs(fd, &st) && (st.f_type == TMPFS_MAGIC || st.f_type == HUGETLBFS_MAGIC);
}

static int export_open_file(const struct mapping *m)
{
	int fd = open_by_descriptor(m);

	if (fd < 0)
		fd = open_by_path(m);
	if (fd >= 0 && !(export_is_same(fd, m) && is_of_memory(fd))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The current size of the file; 0: it cannot be reached. */
static uint64_t export_bytes_of(const struct share_file *f)
{
	struct shmid_ds segment;
	struct stat st;

	if (f->kind == SHARE_GPU)
		return f->bytes;
	if (f->kind == SHARE_SEGMENT)
		return shmctl((int)f->inode, IPC_STAT, &segment) ? 0 : segment.shm_segsz;
	return f->fd < 0 || fstat(f->fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* ---- the table ---- */

/* Shows s->file[place].shown to others. */
static void export_show(struct share *s, uint32_t place) REQUIRES(s->file_lock)
{
	struct share_file *f = &s->file[place].shown, *to = &s->table->file[place];

	to->device = f->device;
	to->inode = f->inode;
	to->bytes = f->bytes;
	to->fd = f->fd;
	to->kind = f->kind;
	memcpy(to->handle, f->handle, sizeof(to->handle));
	/* release pairs with import_at() */
	atomic_store_explicit(&to->serial, ++s->file_serial, memory_order_release);
}

/* The entry of the file, or a free one, which is to be shown then: *is_new. SHARE_FILES: none is free. */
static uint32_t export_place(struct share *s, const struct share_file *what, bool *is_new) REQUIRES(s->file_lock)
{
	uint32_t free = SHARE_FILES;

	*is_new = false;
	for (uint32_t i = 0; i < SHARE_FILES; i++) {
		const struct share_file *f = &s->file[i].shown;

		if (!s->file[i].regions)
			free = min_of(free, i);
		else if (f->inode == what->inode && f->device == what->device && f->kind == what->kind)
			return i;
	}
	*is_new = free != SHARE_FILES;
	if (*is_new)
		s->file[free].shown = *what;
	return free;
}

/* The number of the file, from 1; 0: no entry is free. A file that cannot be opened has an entry too, so that it is
 * tried only once. */
static uint32_t file_of(struct share *s, const struct mapping *m) REQUIRES(s->file_lock)
{
	const struct share_file what = {
		.device = makedev(m->device_major, m->device_minor),
		.inode = m->inode,
		.kind = m->segment ? SHARE_SEGMENT : SHARE_FILE,
	};
	bool is_new;
	uint32_t place = export_place(s, &what, &is_new);

	if (place == SHARE_FILES)
		return 0;
	if (is_new) {
		struct share_file *f = &s->file[place].shown;

		f->fd = m->segment ? -1 : export_open_file(m);
		f->bytes = export_bytes_of(f);
		export_show(s, place);
	}
	return place + 1;
}

/* The end of the contiguous mapping of the file, from `first` on, at most `end`. */
static uint64_t end_of(struct maps *maps, const struct mapping *first, uint64_t end)
{
	struct mapping last = *first, next;

	while (last.end < end && !maps_find(maps, last.end, &next) && next.start == last.end && next.shared &&
	       next.readable && next.writable && next.inode == last.inode && next.device_major == last.device_major &&
	       next.device_minor == last.device_minor && next.segment == last.segment &&
	       next.offset == last.offset + (last.end - last.start))
		last = next;
	return min_of(last.end, end);
}

void export_make(struct share *s, void *address, uint64_t length, struct exported *where)
{
	uint64_t at = (uintptr_t)address, end;
	struct mapping m;
	struct maps maps;

	*where = (struct exported){0};
	/* relaxed: see struct share */
	if (!length || atomic_load_explicit(&s->inert, memory_order_relaxed) || maps_open(&maps))
		return;
	if (maps_find(&maps, at, &m) || m.start > at || !m.shared || !m.readable || !m.writable || !m.inode ||
	    arena_has(s->arena, &m))
		goto out;
	end = end_of(&maps, &m, at + length);
	lock_take(&s->file_lock);
	where->file = file_of(s, &m);
	if (where->file) {
		uint64_t bytes = export_bytes_of(&s->file[where->file - 1].shown);

		s->file[where->file - 1].regions++;
		where->offset = m.offset + (at - m.start);
		/* nothing beyond the end of the file */
		where->mapped = where->offset < bytes ? min_of(end - at, bytes - where->offset) : 0;
	}
	lock_drop(&s->file_lock);
out:
	maps_close(&maps);
}

void export_make_gpu(struct share *s, const struct gpu_memory *gpu, uint64_t address, uint64_t length,
		     struct exported *where)
{
	struct gpu_export e;
	struct share_file what;
	uint32_t place;
	bool is_new;

	*where = (struct exported){0};
	/* relaxed: see struct share */
	if (atomic_load_explicit(&s->inert, memory_order_relaxed) || !gpu_export(gpu, &e))
		return;
	what = (struct share_file){
		.device = e.start, .inode = e.serial, .bytes = e.length, .fd = e.fd, .kind = SHARE_GPU};
	memcpy(what.handle, e.handle, sizeof(what.handle));
	lock_take(&s->file_lock);
	place = export_place(s, &what, &is_new);
	if (is_new)
		export_show(s, place);
	else if (e.fd >= 0)
		close(e.fd);
	if (place != SHARE_FILES) {
		s->file[place].regions++;
		*where = (struct exported){(place + 1) | SHARE_OF_GPU, address - e.start, length};
	}
	lock_drop(&s->file_lock);
}

void export_release(struct share *s, uint32_t file)
{
	bool last;

	if (!file)
		return;
	lock_take(&s->file_lock);
	assert(file <= SHARE_FILES && s->file[file - 1].regions);
	last = !--s->file[file - 1].regions;
	if (last) {
		/* release pairs with import_release(): a local peer that sees it is no longer in any region of the
		 * file */
		atomic_store_explicit(&s->table->file[file - 1].serial, 0, memory_order_release);
		atomic_fetch_add_explicit(&s->table->files_closed, 1, memory_order_release);
		if (s->file[file - 1].shown.fd >= 0)
			close(s->file[file - 1].shown.fd);
	}
	lock_drop(&s->file_lock);
	if (last && s->on_release)
		s->on_release(s->on_release_arg);
}
