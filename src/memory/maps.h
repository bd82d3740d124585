/* SPDX-License-Identifier: BSD-2-Clause */
/* The mappings of this process, from the kernel. Single mappings are queried, in rising order; to touch the pages
 * instead would take seconds for a large region. */
#ifndef UROCE_MAPS_H
#define UROCE_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

struct mapping {
	uint64_t start, end;
	uint64_t offset, inode; /* of the file; 0: no file */
	uint32_t device_major, device_minor;
	bool readable, writable, shared;
	bool segment; /* SysV shared memory: `inode` is its number, which another file may have too */
	bool special; /* the stack, vdso and the like */
};

/* Does not allocate, so that an allocator may call it. */
struct maps {
	int fd;
	size_t begin, end; /* the part of `text` that is not parsed yet */
	char text[4096];
};

/* For tests: use the method for older kernels. */
extern bool maps_old;

/* 0 or -errno (no /proc). */
int maps_open(struct maps *maps);
void maps_close(struct maps *maps);

/* The mapping that contains `address`, or the next above it. 0 or -ENOENT. Addresses must rise from call to call: with
 * older kernels the list is read only once, from the beginning. */
int maps_find(struct maps *maps, uint64_t address, struct mapping *m);

#endif
