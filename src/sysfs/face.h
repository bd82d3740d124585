/* SPDX-License-Identifier: BSD-2-Clause */
/* liburoce-sysfs.so: puts the trees of device/tree.h where programs look for them, by answering the calls of
 * the C library that name files. Every other path goes to the C library as it came. Nothing is written to any
 * file system: an open file is a memfd, and so is an open directory, whose name says which one it is.
 *
 * What is asked by netlink is answered as well (netlink.c).
 *
 * Calls that the C library makes within itself (for fts, nftw, glob, fread) are not seen. Any thread may call. */
#ifndef UROCE_FACE_H
#define UROCE_FACE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sysfs/next.h"
#include "device/tree.h"

/* Of liburoce.so.1. Without it, nothing is ours. */
#pragma weak uroce_tree_read

/* What a path leads to. */
struct face {
	struct tree_node node; /* if it is one of ours */
	const char *path;      /* absolute if it is one of ours; else what to pass on: what came, or where a link
				  led */
	char buffer[PATH_MAX];
};

enum finding {
	FACE_ERROR = -1, /* ours, but nothing is there: errno says why */
	FACE_THEIRS = 0,
	FACE_OURS = 1, /* the caller frees f->node.text */
};

/* Whose is the path, seen from that directory? `follow`: if it ends at a link, where that leads is meant. */
enum finding face_find(struct face *f, int dirfd, const char *path, bool follow);

/* A file descriptor for what was found, as open() with these flags gives. Or -1 and errno. */
int face_open(const struct face *f, int flags);

/* Whether the descriptor is one that face_open() made of a directory. Its path is put into `path`. */
bool face_directory(int fd, char path[PATH_MAX]);

/* The program reads a file from its beginning: if it is a counter, it finds what that is now. To be called once one has
 * been opened. */
extern _Atomic bool counter_opened; /* relaxed: a thread that has the descriptor knows it */
void face_renew(int fd);

#endif
