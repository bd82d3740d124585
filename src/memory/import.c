/* SPDX-License-Identifier: BSD-2-Clause */
/* Imported files. export.c says which program needs them, and the figures. */
#include "memory/import.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <string.h>

#include "base/memfd.h"
#include "memory/gpu.h"
#include "memory/maps.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* Linux 5.6; of all architectures */
#endif

/* Huge pages may be lacking when they are first accessed, or again after a hole was punched. */
static bool file_may_shrink(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals < 0 || !(seals & F_SEAL_SHRINK) || memfd_is_huge(fd);
}

/* As file_may_shrink(): those of small pages are on the file system of memfds. */
static bool segment_may_shrink(const void *at)
{
	int fd = memfd_new("uroce-same", MFD_CLOEXEC);
	struct mapping m;
	struct maps maps;
	struct stat st;
	bool may = true;

	if (fd >= 0 && !fstat(fd, &st) && !maps_open(&maps)) {
		may = maps_find(&maps, (uintptr_t)at, &m) || m.start > (uintptr_t)at ||
		      m.device_major != major(st.st_dev) || m.device_minor != minor(st.st_dev);
		maps_close(&maps);
	}
	if (fd >= 0)
		close(fd);
	return may;
}

static void *import_attach(const struct share_table *t, const struct share_file *f, bool *may_shrink)
{
	struct shmid_ds segment;
	void *at;

	/* another IPC namespace may have another segment with that number */
	if (!t->ipc || t->ipc != share_ipc() || shmctl((int)f->inode, IPC_STAT, &segment) ||
	    segment.shm_segsz != f->bytes)
		return MAP_FAILED;
	at = shmat((int)f->inode, NULL, 0); /* on failure it returns MAP_FAILED too */
	*may_shrink = at != MAP_FAILED && segment_may_shrink(at);
	return at;
}

static void *import_map(pid_t pid, const struct share_file *f, bool *may_shrink)
{
	void *at = MAP_FAILED;
	struct stat st;
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, f->fd);
	fd = f->fd < 0 ? -1 : open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return at;
	/* the descriptor may be another file of any kind by now: check it by O_PATH before it is opened for use */
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_ino == f->inode && st.st_dev == f->device &&
	    (uint64_t)st.st_size >= f->bytes) {
		int file;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		file = open(path, O_RDWR | O_CLOEXEC);
		if (file >= 0) {
			*may_shrink = file_may_shrink(file);
			at = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
			close(file);
		}
	}
	close(fd);
	return at;
}

static void import_unmap(struct imported *mine)
{
	char *at = atomic_load_explicit(&mine->at, memory_order_relaxed);

	if (at && mine->kind == SHARE_GPU)
		gpu_release(mine->gpu);
	else if (at && mine->kind == SHARE_SEGMENT)
		shmdt(at);
	else if (at)
		munmap(at, atomic_load_explicit(&mine->bytes, memory_order_relaxed));
	atomic_store_explicit(&mine->at, NULL, memory_order_relaxed);
	atomic_store_explicit(&mine->serial, 0, memory_order_relaxed);
}

/* Copies the entry before it is read, as the local peer may change it. */
static struct share_file import_copy(const struct share_file *there)
{
	struct share_file f = *there;

	__asm__ volatile("" : "+m"(f) : : "memory"); /* nothing is read there again */
	return f;
}

/* A descriptor of the local peer, which cannot be opened again; -1: not allowed, or a kernel before 5.6. */
static int import_descriptor(pid_t pid, int theirs)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), fd = -1;

	if (process < 0)
		return -1;
	fd = (int)syscall(SYS_pidfd_getfd, process, theirs, 0);
	close(process);
	return fd;
}

/* Where the allocation is in this process. */
static void *import_open_gpu(const struct importer *b, const struct share_file *f, struct gpu_memory **gpu)
{
	struct gpu_export e = {.start = f->device, .length = f->bytes, .serial = f->inode, .fd = -1};
	uint64_t start = e.start;

	memcpy(e.handle, f->handle, sizeof(e.handle));
	*gpu = NULL;
	if (!b->pid)
		*gpu = gpu_find_again(&e);
	else if (f->fd < 0 || (e.fd = import_descriptor(b->pid, f->fd)) >= 0)
		*gpu = gpu_import(&e, &start);
	if (e.fd >= 0)
		close(e.fd);
	return *gpu ? (void *)(uintptr_t)start : MAP_FAILED;
}

static void *import_any(const struct importer *b, const struct share_file *f, struct imported *mine)
{
	if (f->kind == SHARE_GPU)
		return import_open_gpu(b, f, &mine->gpu);
	return f->kind == SHARE_SEGMENT ? import_attach(b->table, f, &mine->may_shrink)
					: import_map(b->pid, f, &mine->may_shrink);
}

static void import_make(struct importer *b, struct imported *mine, const struct share_file *there, uint64_t serial)
	REQUIRES(b->lock)
{
	const struct share_file copy = import_copy(there), *f = &copy;
	void *at;

	if (atomic_load_explicit(&mine->serial, memory_order_relaxed) == serial)
		return; /* another thread was first */
	import_unmap(mine);
	mine->may_shrink = false;
	at = import_any(b, f, mine);
	if (at != MAP_FAILED) {
		if (f->kind != SHARE_GPU)
			madvise(at, f->bytes, MADV_DONTFORK);
		mine->kind = f->kind;
		atomic_store_explicit(&mine->at, at, memory_order_relaxed);
		atomic_store_explicit(&mine->bytes, f->bytes, memory_order_relaxed);
	}
	/* release pairs with import_at() */
	atomic_store_explicit(&mine->serial, serial, memory_order_release);
}

/* The file, mapped if that is possible. NULL: there is no such file. */
static struct imported *import_file(struct importer *b, uint32_t file)
{
	struct imported *mine;
	const struct share_file *f;
	uint64_t serial;

	if (unlikely(file - 1 >= SHARE_FILES))
		return NULL;
	mine = &b->file[file - 1];
	f = &b->table->file[file - 1];
	/* constant while the region is open; acquire pairs with export_make() */
	serial = atomic_load_explicit(&((struct share_file *)f)->serial, memory_order_acquire);
	if (unlikely(!serial))
		return NULL;
	/* acquire pairs with import_make() */
	if (unlikely(atomic_load_explicit(&mine->serial, memory_order_acquire) != serial)) {
		lock_take(&b->lock);
		import_make(b, mine, f, serial);
		lock_drop(&b->lock);
	}
	return mine;
}

/* A file that has grown is mapped with its old size. */
static char *import_within(const struct imported *mine, uint64_t offset, uint64_t length)
{
	char *at = atomic_load_explicit(&((struct imported *)mine)->at, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&((struct imported *)mine)->bytes, memory_order_relaxed);

	return at && offset <= bytes && length <= bytes - offset ? at + offset : NULL;
}

char *import_at(struct importer *b, uint32_t file, uint64_t offset, uint64_t length, bool *may_shrink)
{
	const struct imported *mine = import_file(b, file);

	if (unlikely(!mine || mine->kind == SHARE_GPU)) /* its address is none here */
		return NULL;
	*may_shrink = mine->may_shrink;
	return import_within(mine, offset, length);
}

uint64_t import_gpu_at(struct importer *b, uint32_t file, uint64_t offset, uint64_t length, struct gpu_memory **gpu)
{
	const struct imported *mine;

	/* before the program has a context of the GPU here, none can be opened: that is not to be remembered */
	if (!gpu_in_use())
		return 0;
	mine = import_file(b, file);
	if (!mine || mine->kind != SHARE_GPU)
		return 0;
	*gpu = mine->gpu;
	return (uintptr_t)import_within(mine, offset, length);
}

void import_release(struct importer *b)
{
	/* acquire pairs with export_release() */
	uint32_t closed = atomic_load_explicit(&b->table->files_closed, memory_order_acquire);

	/* relaxed: it changes under the lock; a stale value is corrected by the next call */
	if (likely(closed == atomic_load_explicit(&b->seen, memory_order_relaxed)))
		return;
	lock_take(&b->lock);
	for (uint32_t i = 0; i < SHARE_FILES; i++) {
		uint64_t mine = atomic_load_explicit(&b->file[i].serial, memory_order_relaxed);

		if (mine && mine != atomic_load_explicit(&b->table->file[i].serial, memory_order_acquire))
			import_unmap(&b->file[i]);
	}
	atomic_store_explicit(&b->seen, closed, memory_order_relaxed);
	lock_drop(&b->lock);
}

void import_close(struct importer *b)
{
	for (uint32_t i = 0; i < SHARE_FILES; i++)
		import_unmap(&b->file[i]);
}
