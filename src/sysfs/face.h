/* SPDX-License-Identifier: BSD-2-Clause */
/* liburoce-sysfs.so: shows the trees of device/tree.h where programs look for them, by answering the C library's
 * calls that take file names. Every other path is passed on unchanged. Nothing is written to any file system: an
 * open file is a memfd, and so is an open directory, whose name is its path.
 *
 * Requests by netlink are answered as well (netlink.c).
 *
 * Calls within the C library (for fts, nftw, glob, fread) are not seen. Any thread may call. */
#ifndef UROCE_FACE_H
#define UROCE_FACE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sysfs/next.h"
#include "device/tree.h"

/* From liburoce.so.1. Without it, no path is ours. */
#pragma weak uroce_tree_read

/* Result of looking up a path. */
struct face {
	struct tree_node node; /* valid for a path of ours */
	const char *path;      /* absolute if ours; else the path to pass on: as given, or where a link led */
	char buffer[PATH_MAX];
};

enum finding {
	FACE_ERROR = -1, /* ours, but nothing exists there; errno is set */
	FACE_THEIRS = 0,
	FACE_OURS = 1, /* ours; the caller frees f->node.text */
};

/* Looks up a path relative to a directory. `follow`: follows a link at the end. */
enum finding face_find(struct face *f, int dirfd, const char *path, bool follow);

/* Opens a path of ours as open() does. A descriptor, or -1 with errno. */
int face_open(const struct face *f, int flags);

/* True if face_open() opened the descriptor for a directory; `path` gets its path. */
bool face_directory(int fd, char path[PATH_MAX]);

/* Updates the contents of a counter's file that is read from its beginning. Called once a counter has been opened. */
extern _Atomic bool counter_opened; /* relaxed: a thread with the descriptor knows */
void face_renew(int fd);

#endif
