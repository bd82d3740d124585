/* SPDX-License-Identifier: BSD-2-Clause */
/* Lent memory: regions in files that the program itself shares (memfds, SysV segments, files on tmpfs and hugetlbfs),
 * which local peers then map as they do made shareable ones. What we find is the file behind a mapping: by a descriptor
 * of the program's, by its path, or by /proc/self/map_files where that is allowed; of a SysV segment the number is
 * enough. The descriptor is kept as long as a region is in the file, and local peers open it through /proc/PID/fd
 * (import.h).
 *
 * Who stores to where a file has become shorter gets SIGBUS. SysV segments cannot shrink, and memfds may be sealed so;
 * all others are `guarded`: local peers make sure that they catch it (fault.h), or have the kernel copy.
 *
 * When the last region of a file is closed, local peers are told to let it go, so that its memory is the program's to
 * give back. Any thread may call. */
#ifndef UROCE_EXPORT_H
#define UROCE_EXPORT_H

#include <stdint.h>

struct share;

struct exported {
	uint32_t file; /* as in struct share_region; 0: nothing is exported */
	uint64_t offset, mapped;
};

/* A region that can be written is about to be opened. export_release(), when it has been closed and settled; the number
 * is what export_make() gave, kept in private memory. */
void export_make(struct share *s, void *address, uint64_t length, struct exported *where);
void export_release(struct share *s, uint32_t file);

/* All descriptors. */
void export_close(struct share *s);

#endif
