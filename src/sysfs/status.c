/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls for metadata: stat and its variants, access, readlink, realpath, extended attributes (for ls -l). */
#include "sysfs/face.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/base.h"

/* stat() and its variants in glibc before 2.33. The version is that of the structure, of which 64-bit machines have
 * one. */
#if __x86_64__
#define OLD_VERSION "GLIBC_2.2.5"
#else
#define OLD_VERSION "GLIBC_2.17"
#endif
int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstat64(int version, int fd, struct stat64 *st);
int __fxstatat(int version, int dirfd, const char *path, struct stat *st, int flags);
int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *st, int flags);
static_assert(sizeof(struct stat) == sizeof(struct stat64), "one structure serves both names");

#define NEXT_OLD(name) NEXT_AS(name, dlvsym(RTLD_NEXT, #name, OLD_VERSION))

/* Variants for programs built with _FORTIFY_SOURCE. */
ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *buffer, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

/* A hash of the path; two paths hardly have the same. */
static ino_t status_inode_of(const char *path)
{
	ino_t hash = 14695981039346656037u; /* FNV-1a */

	for (; *path; path++)
		hash = (hash ^ (unsigned char)*path) * 1099511628211u;
	return hash;
}

static void status_describe(const char *path, const struct tree_node *node, struct stat *st)
{
	static const mode_t modes[] = {
		[TREE_DIRECTORY] = S_IFDIR | 0755,
		[TREE_FILE] = S_IFREG | 0444,
		[TREE_LINK] = S_IFLNK | 0777,
		[TREE_DEVICE] = S_IFCHR | 0666,
	};

	*st = (struct stat){
		.st_dev = makedev(0, 0xfffff), /* not used by mounted file systems */
		.st_ino = status_inode_of(path),
		.st_nlink = node->kind == TREE_DIRECTORY ? 2 : 1,
		.st_mode = modes[node->kind],
		.st_rdev = node->kind == TREE_DEVICE ? makedev(TREE_MAJOR, node->minor) : 0,
		.st_size = node->kind == TREE_FILE ? 4096 : (off_t)node->length, /* a page, as in /sys */
		.st_blksize = 4096,
	};
	if (node->kind == TREE_DIRECTORY || node->kind == TREE_DEVICE)
		st->st_size = 0;
}

static int describe_found(struct face *f, enum finding found, struct stat *st)
{
	if (found == FACE_ERROR)
		return -1;
	status_describe(f->path, &f->node, st);
	free(f->node.text);
	return 0;
}

/* Fills `st` for an open directory of ours, which otherwise looks like an empty file without a name. */
static int describe_open(int fd, struct stat *st, int result)
{
	struct tree_node node = {.kind = TREE_DIRECTORY};
	char path[PATH_MAX];

	if (result == 0 && S_ISREG(st->st_mode) && st->st_nlink == 0 && face_directory(fd, path))
		status_describe(path, &node, st);
	return result;
}

#define STAT(name, type, follow)                                                                      \
	PUBLIC int name(const char *path, struct type *st)                                            \
	{                                                                                             \
		struct face f;                                                                        \
		enum finding found = face_find(&f, AT_FDCWD, path, follow);                           \
                                                                                                      \
		return found ? describe_found(&f, found, (struct stat *)st) : NEXT(name)(f.path, st); \
	}
STAT(stat, stat, true)
STAT(stat64, stat64, true)
STAT(lstat, stat, false)
STAT(lstat64, stat64, false)

#define XSTAT(name, type, follow)                                                                                  \
	PUBLIC int name(int version, const char *path, struct type *st)                                            \
	{                                                                                                          \
		struct face f;                                                                                     \
		enum finding found = face_find(&f, AT_FDCWD, path, follow);                                        \
                                                                                                                   \
		return found ? describe_found(&f, found, (struct stat *)st) : NEXT_OLD(name)(version, f.path, st); \
	}
XSTAT(__xstat, stat, true)
XSTAT(__xstat64, stat64, true)
XSTAT(__lxstat, stat, false)
XSTAT(__lxstat64, stat64, false)

#define FSTAT(name, type)                                                        \
	PUBLIC int name(int fd, struct type *st)                                 \
	{                                                                        \
		return describe_open(fd, (struct stat *)st, NEXT(name)(fd, st)); \
	}
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

#define FXSTAT(name, type)                                                                    \
	PUBLIC int name(int version, int fd, struct type *st)                                 \
	{                                                                                     \
		return describe_open(fd, (struct stat *)st, NEXT_OLD(name)(version, fd, st)); \
	}
FXSTAT(__fxstat, stat)
FXSTAT(__fxstat64, stat64)

#define FSTATAT(name, type)                                                                      \
	PUBLIC int name(int dirfd, const char *path, struct type *st, int flags)                 \
	{                                                                                        \
		struct face f;                                                                   \
		enum finding found = face_find(&f, dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW)); \
                                                                                                 \
		if (found)                                                                       \
			return describe_found(&f, found, (struct stat *)st);                     \
		return describe_open(f.path && !*f.path ? dirfd : -1, (struct stat *)st,         \
				     NEXT(name)(dirfd, f.path, st, flags));                      \
	}
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

#define FXSTATAT(name, type)                                                                     \
	PUBLIC int name(int version, int dirfd, const char *path, struct type *st, int flags)    \
	{                                                                                        \
		struct face f;                                                                   \
		enum finding found = face_find(&f, dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW)); \
                                                                                                 \
		if (found)                                                                       \
			return describe_found(&f, found, (struct stat *)st);                     \
		return describe_open(f.path && !*f.path ? dirfd : -1, (struct stat *)st,         \
				     NEXT_OLD(name)(version, dirfd, f.path, st, flags));         \
	}
FXSTATAT(__fxstatat, stat)
FXSTATAT(__fxstatat64, stat64)

static void to_statx(const struct stat *st, struct statx *out)
{
	*out = (struct statx){
		.stx_mask = STATX_BASIC_STATS,
		.stx_blksize = (uint32_t)st->st_blksize,
		.stx_nlink = (uint32_t)st->st_nlink,
		.stx_mode = (uint16_t)st->st_mode,
		.stx_ino = st->st_ino,
		.stx_size = (uint64_t)st->st_size,
		.stx_rdev_major = major(st->st_rdev),
		.stx_rdev_minor = minor(st->st_rdev),
		.stx_dev_major = major(st->st_dev),
		.stx_dev_minor = minor(st->st_dev),
	};
}

PUBLIC int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *out)
{
	struct face f;
	struct stat st;
	enum finding found = face_find(&f, dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW));
	int result = found ? describe_found(&f, found, &st) : NEXT(statx)(dirfd, f.path, flags, mask, out);

	if (result == 0 && (found || (f.path && !*f.path && face_directory(dirfd, f.buffer) && fstat(dirfd, &st) == 0)))
		to_statx(&st, out);
	return result;
}

static int may(struct face *f, enum finding found, int how)
{
	bool file;

	if (found == FACE_ERROR)
		return -1;
	free(f->node.text);
	file = f->node.kind == TREE_FILE;
	if ((file && (how & (W_OK | X_OK))) || (f->node.kind == TREE_DEVICE && (how & X_OK))) {
		errno = EACCES;
		return -1;
	}
	return 0;
}

#define ACCESS(name)                                                          \
	PUBLIC int name(const char *path, int how)                            \
	{                                                                     \
		struct face f;                                                \
		enum finding found = face_find(&f, AT_FDCWD, path, true);     \
                                                                              \
		return found ? may(&f, found, how) : NEXT(name)(f.path, how); \
	}
ACCESS(access)
ACCESS(eaccess)
ACCESS(euidaccess)

PUBLIC int faccessat(int dirfd, const char *path, int how, int flags)
{
	struct face f;
	enum finding found = face_find(&f, dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW));

	return found ? may(&f, found, how) : NEXT(faccessat)(dirfd, f.path, how, flags);
}

static ssize_t read_link(struct face *f, enum finding found, char *buffer, size_t size)
{
	size_t n = f->node.length;

	if (found == FACE_ERROR)
		return -1;
	if (f->node.kind != TREE_LINK) {
		free(f->node.text);
		errno = EINVAL;
		return -1;
	}
	if (n > size)
		n = size;
	memcpy(buffer, f->node.text, n);
	free(f->node.text);
	return (ssize_t)n;
}

PUBLIC ssize_t readlink(const char *restrict path, char *restrict buffer, size_t size)
{
	struct face f;
	enum finding found = face_find(&f, AT_FDCWD, path, false);

	return found ? read_link(&f, found, buffer, size) : NEXT(readlink)(f.path, buffer, size);
}

PUBLIC ssize_t readlinkat(int dirfd, const char *restrict path, char *restrict buffer, size_t size)
{
	struct face f;
	enum finding found = face_find(&f, dirfd, path, false);

	return found ? read_link(&f, found, buffer, size) : NEXT(readlinkat)(dirfd, f.path, buffer, size);
}

PUBLIC ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room)
{
	struct face f;
	enum finding found = face_find(&f, AT_FDCWD, path, false);

	if (!found || size > room)
		return NEXT(__readlink_chk)(f.path, buffer, size, room);
	return read_link(&f, found, buffer, size);
}

PUBLIC ssize_t __readlinkat_chk(int dirfd, const char *path, char *buffer, size_t size, size_t room)
{
	struct face f;
	enum finding found = face_find(&f, dirfd, path, false);

	if (!found || size > room)
		return NEXT(__readlinkat_chk)(dirfd, f.path, buffer, size, room);
	return read_link(&f, found, buffer, size);
}

/* `room`: bytes known to be at `resolved` */
static char *status_resolve(struct face *f, enum finding found, char *resolved, size_t room)
{
	size_t n;

	if (found == FACE_ERROR)
		return NULL;
	free(f->node.text);
	n = strlen(f->path) + 1;
	if (!resolved)
		return strdup(f->path);
	if (n > room) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	return memcpy(resolved, f->path, n);
}

PUBLIC char *realpath(const char *restrict path, char *restrict resolved)
{
	struct face f;
	enum finding found = face_find(&f, AT_FDCWD, path, true);

	return found ? status_resolve(&f, found, resolved, PATH_MAX) : NEXT(realpath)(f.path, resolved);
}

PUBLIC char *canonicalize_file_name(const char *path)
{
	struct face f;
	enum finding found = face_find(&f, AT_FDCWD, path, true);

	return found ? status_resolve(&f, found, NULL, 0) : NEXT(canonicalize_file_name)(f.path);
}

PUBLIC char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	struct face f;
	enum finding found = face_find(&f, AT_FDCWD, path, true);

	return found ? status_resolve(&f, found, resolved, room) : NEXT(__realpath_chk)(f.path, resolved, room);
}

static ssize_t no_attributes(struct face *f, enum finding found)
{
	if (found == FACE_OURS) {
		free(f->node.text);
		errno = EOPNOTSUPP;
	}
	return -1;
}

#define GETXATTR(name, follow)                                                                        \
	PUBLIC ssize_t name(const char *path, const char *attribute, void *value, size_t size)        \
	{                                                                                             \
		struct face f;                                                                        \
		enum finding found = face_find(&f, AT_FDCWD, path, follow);                           \
                                                                                                      \
		return found ? no_attributes(&f, found) : NEXT(name)(f.path, attribute, value, size); \
	}
GETXATTR(getxattr, true)
GETXATTR(lgetxattr, false)

#define LISTXATTR(name, follow)                                                           \
	PUBLIC ssize_t name(const char *path, char *list, size_t size)                    \
	{                                                                                 \
		struct face f;                                                            \
		enum finding found = face_find(&f, AT_FDCWD, path, follow);               \
                                                                                          \
		return found ? no_attributes(&f, found) : NEXT(name)(f.path, list, size); \
	}
LISTXATTR(listxattr, true)
LISTXATTR(llistxattr, false)
