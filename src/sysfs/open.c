/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that open files. */
#include "sysfs/face.h"
#include "sysfs/umad.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Variants for programs built with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

static int sysfs_open_found(struct face *f, enum finding found, int flags)
{
	int fd;

	if (found == FACE_ERROR)
		return -1;
	if (f->node.kind == TREE_DEVICE && f->node.is_mad)
		fd = umad_open(strrchr(f->path, '/') + 1, flags);
	else
		fd = face_open(f, flags);
	free(f->node.text);
	return fd;
}

#define TAKE_MODE(flags, mode)                                             \
	do {                                                               \
		va_list ap;                                                \
                                                                           \
		va_start(ap, flags);                                       \
		if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) \
			mode = va_arg(ap, mode_t);                         \
		va_end(ap);                                                \
	} while (0)

#define OPEN(name)                                                                                   \
	PUBLIC int name(const char *path, int flags, ...)                                            \
	{                                                                                            \
		struct face f;                                                                       \
		enum finding found = face_find(&f, AT_FDCWD, path, !(flags & O_NOFOLLOW));           \
		mode_t mode = 0;                                                                     \
                                                                                                     \
		TAKE_MODE(flags, mode);                                                              \
		return found ? sysfs_open_found(&f, found, flags) : NEXT(name)(f.path, flags, mode); \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                        \
	PUBLIC int name(int dirfd, const char *path, int flags, ...)                                        \
	{                                                                                                   \
		struct face f;                                                                              \
		enum finding found = face_find(&f, dirfd, path, !(flags & O_NOFOLLOW));                     \
		mode_t mode = 0;                                                                            \
                                                                                                            \
		TAKE_MODE(flags, mode);                                                                     \
		return found ? sysfs_open_found(&f, found, flags) : NEXT(name)(dirfd, f.path, flags, mode); \
	}
OPENAT(openat)
OPENAT(openat64)

#define OPEN_2(name)                                                                           \
	PUBLIC int name(const char *path, int flags)                                           \
	{                                                                                      \
		struct face f;                                                                 \
		enum finding found = face_find(&f, AT_FDCWD, path, !(flags & O_NOFOLLOW));     \
                                                                                               \
		return found ? sysfs_open_found(&f, found, flags) : NEXT(name)(f.path, flags); \
	}
OPEN_2(__open_2)
OPEN_2(__open64_2)

#define OPENAT_2(name)                                                                                \
	PUBLIC int name(int dirfd, const char *path, int flags)                                       \
	{                                                                                             \
		struct face f;                                                                        \
		enum finding found = face_find(&f, dirfd, path, !(flags & O_NOFOLLOW));               \
                                                                                                      \
		return found ? sysfs_open_found(&f, found, flags) : NEXT(name)(dirfd, f.path, flags); \
	}
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

/* A file of sysfs is computed anew when read from its beginning, as programs that watch counters do. */
#define READ(name, parameters, begins, ...)                                                  \
	static typeof(name) *next_##name(void)                                               \
	{                                                                                    \
		return NEXT(name);                                                           \
	}                                                                                    \
	PUBLIC ssize_t name parameters                                                       \
	{                                                                                    \
		if (atomic_load_explicit(&counter_opened, memory_order_relaxed) && (begins)) \
			face_renew(fd);                                                      \
		return next_##name()(__VA_ARGS__);                                           \
	}
READ(read, (int fd, void *buffer, size_t size), lseek(fd, 0, SEEK_CUR) == 0, fd, buffer, size)
READ(pread, (int fd, void *buffer, size_t size, off_t offset), offset == 0, fd, buffer, size, offset)
READ(pread64, (int fd, void *buffer, size_t size, off64_t offset), offset == 0, fd, buffer, size, offset)

/* Looks functions up early, rather than in a signal handler. */
__attribute__((constructor)) static void open_find_early(void)
{
	next_read();
	next_pread();
	next_pread64();
}

static FILE *fopen_found(struct face *f, enum finding found, const char *mode)
{
	int flags = strchr(mode, 'e') ? O_CLOEXEC : 0, fd;
	FILE *file;

	flags |= strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
	fd = sysfs_open_found(f, found, flags);
	if (fd < 0)
		return NULL;
	file = fdopen(fd, mode);
	if (!file)
		close(fd);
	return file;
}

#define FOPEN(name)                                                                     \
	PUBLIC FILE *name(const char *path, const char *mode)                           \
	{                                                                               \
		struct face f;                                                          \
		enum finding found = face_find(&f, AT_FDCWD, path, true);               \
                                                                                        \
		return found ? fopen_found(&f, found, mode) : NEXT(name)(f.path, mode); \
	}
FOPEN(fopen)
FOPEN(fopen64)
