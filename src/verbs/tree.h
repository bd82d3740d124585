/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel shows of an adapter in files: the trees /sys/class/infiniband*, and /dev/infiniband. Ours
 * are made when somebody looks. liburoce-sysfs.so shows them to programs that look past libibverbs; our own
 * ibv_read_sysfs_file() reads them. Any thread may call. */
#ifndef UROCE_TREE_H
#define UROCE_TREE_H

#include <stdbool.h>
#include <stddef.h>

/* Of devices: the kernel's, for /dev/infiniband, and for uverbs0 there. */
#define TREE_MAJOR 231
#define TREE_MINOR 192

enum tree_kind {
	TREE_DIRECTORY,
	TREE_FILE,
	TREE_LINK,
	TREE_DEVICE, /* a character device */
};

struct tree_node {
	enum tree_kind kind;
	/* The contents of a file; where a link points to; the names in a directory, each ended by a 0. The
	 * caller frees it. */
	char *text;
	size_t length;
	bool changes;	  /* a file's contents, while it is open */
	int error;	  /* what reading the file gives, as in the kernel, if it has no value: 0 or EINVAL */
	unsigned minor;	  /* of a device */
	const char *rest; /* what of the path follows a link: within the path that was asked for */
};

/* What is at an absolute path without "." and "..". 0; -1 if it is in none of these trees; ENOENT; ENOMEM.
 * Exported under this name, for liburoce-sysfs.so only. */
int uroce_tree_read(const char *path, struct tree_node *node);

#endif
