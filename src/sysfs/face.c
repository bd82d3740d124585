/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/face.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"
#include "sysfs/cwd.h"

#define DIRECTORY_NAME "uroce:"
#define COUNTER_NAME   "uroce-counter:"
#define LINKS_LIMIT    8

/* True once a directory of ours, or a file that changes, has been opened: only then can a descriptor be one of them. */
static _Atomic bool directory_opened;
_Atomic bool counter_opened;

/* Path in the name of a memfd. */
static bool path_of(int fd, const char *before, char path[PATH_MAX])
{
	static const char after[] = " (deleted)";
	size_t skip = strlen(before), cut = sizeof(after) - 1;
	char link[32];
	int error = errno;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = NEXT(readlink)(link, path, PATH_MAX - 1);
	errno = error;
	if (n < (ssize_t)(skip + cut) || memcmp(path, before, skip) != 0)
		return false;
	path[n - (ssize_t)cut] = 0;
	memmove(path, path + skip, (size_t)n - cut - skip + 1);
	return true;
}

bool face_directory(int fd, char path[PATH_MAX])
{
	return fd >= 0 && atomic_load_explicit(&directory_opened, memory_order_relaxed) &&
	       path_of(fd, "/memfd:" DIRECTORY_NAME, path);
}

void face_renew(int fd)
{
	struct tree_node node;
	char path[PATH_MAX];
	int error = errno;

	if (path_of(fd, "/memfd:" COUNTER_NAME, path) && !uroce_tree_read(path, &node)) {
		(void)!pwrite(fd, node.text, node.length, 0); /* contents get no shorter */
		free(node.text);
	}
	errno = error;
}

/* Removes empty parts, "." and "..", in place. */
static void normalise(char *path)
{
	char *out = path, *save, *part = strtok_r(path, "/", &save);

	/* `out` never overtakes `part`: each part written was read, with the slash before it */
	for (*out = 0; part; part = strtok_r(NULL, "/", &save)) {
		size_t n = strlen(part);

		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0) {
			while (out > path && *--out != '/')
				;
			continue;
		}
		memmove(out + 1, part, n);
		*out = '/';
		out += n + 1;
	}
	*out = 0;
}

/* Absolute path, in f->buffer. False if unknown, or too long to be ours. */
static bool make_absolute(struct face *f, int dirfd, const char *path)
{
	size_t n = 0;

	if (path[0] != '/') {
		char link[32];
		ssize_t got;

		if (dirfd == AT_FDCWD) {
			const char *ours = cwd_of_ours();

			if (ours)
				strcpy(f->buffer, ours);
			else if (!NEXT(getcwd)(f->buffer, PATH_MAX))
				return false;
		} else if (!face_directory(dirfd, f->buffer)) {
			snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
			got = NEXT(readlink)(link, f->buffer, PATH_MAX - 1);
			if (got <= 0 || f->buffer[0] != '/')
				return false;
			f->buffer[got] = 0;
		}
		n = strlen(f->buffer);
	}
	if (snprintf(f->buffer + n, PATH_MAX - n, "/%s", path) >= (int)(PATH_MAX - n))
		return false;
	normalise(f->buffer);
	return true;
}

/* Follows a link that was found. False if the path gets too long. */
static bool follow_link(struct face *f)
{
	char path[PATH_MAX];
	const char *slash = *f->node.rest ? "/" : "";
	/* a relative target is relative to the directory of the link */
	const char *end = f->node.rest - (*f->node.rest ? 1 : 0);
	int n;

	while (end > f->buffer && end[-1] != '/')
		end--;
	if (f->node.text[0] == '/')
		end = f->buffer;
	n = snprintf(path, sizeof(path), "%.*s%s%s%s", (int)(end - f->buffer), f->buffer, f->node.text, slash,
		     f->node.rest);
	free(f->node.text);
	if (n + 1 >= (int)sizeof(path)) /* a slash may be appended */
		return false;
	memcpy(f->buffer, path, (size_t)n + 1);
	normalise(f->buffer);
	return true;
}

static enum finding face_fail(int error)
{
	errno = error;
	return FACE_ERROR;
}

enum finding face_find(struct face *f, int dirfd, const char *path, bool follow)
{
	bool directory, within;

	f->path = path;
	if (!path || !*path || !uroce_tree_read)
		return FACE_THEIRS;
	within = path[0] != '/' && dirfd == AT_FDCWD && cwd_of_ours();
	if (!within && !strstr(path, "infiniband") && !strstr(path, "/pci" TREE_PCI_DOMAIN) &&
	    !strstr(path, TREE_PEER_MODULE) && !strstr(path, TREE_PEER_MEMORY) &&
	    (path[0] == '/' || !face_directory(dirfd, f->buffer)))
		return FACE_THEIRS;
	if (!make_absolute(f, dirfd, path))
		return FACE_THEIRS;
	directory = path[strlen(path) - 1] == '/'; /* the slash means that a link at the end is followed */
	for (int links = 0; links < LINKS_LIMIT; links++) {
		int error = uroce_tree_read(f->buffer, &f->node);

		if (error < 0) {
			if (!links && (within || strstr(path, ".."))) /* out of a directory of ours */
				f->path = *f->buffer ? f->buffer : "/";
			if (links && directory)
				strcat(f->buffer, "/"); /* follow_link() has left room */
			return FACE_THEIRS;
		}
		f->path = f->buffer;
		if (error)
			return face_fail(error);
		if (f->node.kind != TREE_LINK || !(follow || directory || *f->node.rest))
			return FACE_OURS;
		if (!follow_link(f))
			return face_fail(ENAMETOOLONG);
	}
	return face_fail(ELOOP);
}

static int open_named(const struct face *f, const char *kind, _Atomic bool *opened, unsigned memfd_flags)
{
	char name[64 + NAME_MAX];

	snprintf(name, sizeof(name), "%s%s", kind, f->path);
	atomic_store_explicit(opened, true, memory_order_relaxed);
	return memfd_new(name, memfd_flags);
}

static int face_open_file(const struct face *f, unsigned memfd_flags)
{
	int fd, err;

	if (f->node.error)
		return face_fail(f->node.error); /* open() cannot let read() fail later */
	fd = f->node.changes ? open_named(f, COUNTER_NAME, &counter_opened, memfd_flags)
			     : memfd_new("uroce", memfd_flags | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	err = memfd_fill(fd, f->node.text, f->node.length);
	if (err) {
		close(fd);
		return face_fail(err == -EFBIG ? EFBIG : ENOMEM);
	}
	if (!f->node.changes)
		fcntl(fd, F_ADD_SEALS,
		      F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW); /* if it fails, the memfd is still our own copy */
	return fd;
}

int face_open(const struct face *f, int flags)
{
	unsigned memfd_flags = flags & O_CLOEXEC ? MFD_CLOEXEC : 0;
	bool writes = (flags & O_ACCMODE) != O_RDONLY;

	switch (f->node.kind) {
	case TREE_DIRECTORY:
		return writes ? face_fail(EISDIR) : open_named(f, DIRECTORY_NAME, &directory_opened, memfd_flags);
	case TREE_FILE:
		return flags & O_DIRECTORY ? face_fail(ENOTDIR)
		       : writes		   ? face_fail(EACCES)
					   : face_open_file(f, memfd_flags);
	case TREE_DEVICE:
		/* exists and may be opened: programs need no more */
		return flags & O_DIRECTORY ? face_fail(ENOTDIR) : NEXT(open)("/dev/null", flags & ~O_CREAT);
	case TREE_LINK:
		break;
	}
	return face_fail(ELOOP);
}
