/* Lent memory: regions in files that the program itself shares (memfds, SysV segments, files on tmpfs and hugetlbfs), which
 * neighbours then map as they do adopted ones. What we find is the file behind a mapping: by a descriptor of the program's,
 * by its path, or by /proc/self/map_files where that is allowed; of a SysV segment the number is enough. The descriptor is
 * kept as long as a region is in the file, and neighbours open it through /proc/PID/fd (borrow.h).
 *
 * Who stores to where a file has become shorter gets SIGBUS. SysV segments cannot shrink, and memfds may be sealed so; all
 * others are `guarded`: neighbours make sure that they catch it (fault.h), or have the kernel copy.
 *
 * When the last region of a file is closed, neighbours are told to let it go, so that its memory is the program's to give
 * back. Any thread may call.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_LEND_H
#define UROCE_LEND_H

#include <stdint.h>

struct share;

struct lent {
	uint32_t file; /* as in struct share_region; 0: nothing is lent */
	uint64_t offset, mapped;
};

/* A region that can be written is about to be opened. lend_release(), when it has been closed and settled. */
void lend(struct share *s, void *address, uint64_t length, struct lent *where);
void lend_release(struct share *s, uint32_t file);

/* All descriptors. */
void lend_close(struct share *s);

#endif
