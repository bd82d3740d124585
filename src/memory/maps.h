/* SPDX-License-Identifier: BSD-2-Clause */
/* What this process has mapped where: the kernel's table of mappings. It is asked for single mappings, in rising order,
 * since to touch the pages would take seconds for a large region. */
#ifndef UROCE_MAPS_H
#define UROCE_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

struct mapping {
	uint64_t start, end;
	uint64_t offset, inode; /* of the file; 0: of none */
	uint32_t device_major, device_minor;
	bool readable, writable, shared;
	bool segment; /* of SysV shared memory: `inode` is its number, which another file may have too */
	bool special; /* the stack, what the kernel shows to programs, and the like */
};

/* Without allocations, so that an allocator may be among the callers. */
struct maps {
	int fd;
	size_t begin, end; /* of what has been read of the list and not yet looked at */
	char text[4096];
};

/* For tests: does as an older kernel makes us do. */
extern bool maps_old;

/* 0 or -errno: there is no /proc. */
int maps_open(struct maps *maps);
void maps_close(struct maps *maps);

/* The mapping that holds this address, or the next above it. 0 or -ENOENT. The list may be read from the beginning only
 * once (older kernels): addresses rise from call to call. */
int maps_find(struct maps *maps, uint64_t address, struct mapping *m);

#endif
