/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that the kernel has for an adapter: the trees /sys/class/infiniband*, TREE_PCI, and /dev/infiniband.
 * Their contents are computed when read. liburoce-sysfs.so shows them to programs that do not read them through
 * libibverbs; our ibv_read_sysfs_file() reads them too. Any thread may call. */
#ifndef UROCE_DEVICE_TREE_H
#define UROCE_DEVICE_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "device/tree_names.h"

struct tree_node {
	enum tree_kind kind;
	/* Contents of a file, target of a link, or names of a directory, each ended by a 0 byte. The caller frees
	 * it. */
	char *text;
	size_t length;
	bool changes;	  /* file: the contents may change while it is open */
	int error;	  /* error of reading a file that has no value, as in the kernel: 0 or EINVAL */
	unsigned minor;	  /* minor number of a device */
	bool is_mad;	  /* device for management datagrams */
	const char *rest; /* link: part of the given path behind the link; points into `path` */
};

/* Looks up an absolute path without "." and "..". 0; -1 if the path is in none of these trees; ENOENT; ENOMEM.
 * Exported only for liburoce-sysfs.so. */
int uroce_tree_read(const char *path, struct tree_node *node);

#endif
