/* SPDX-License-Identifier: BSD-2-Clause */
/* Exported memory: regions in files that the program itself shares (memfds, SysV segments, files on tmpfs and
 * hugetlbfs). Local peers map them as they map memory made shareable. uroce looks for the file behind a mapping: by a
 * descriptor of the program, by its path, or by /proc/self/map_files where that is allowed; for a SysV segment the
 * number is enough. The descriptor is kept as long as a region is in the file, and local peers open it through
 * /proc/PID/fd (import.h).
 *
 * A store beyond the end of a file that has been truncated raises SIGBUS. SysV segments cannot shrink, and memfds may
 * be sealed against it; in all other files local peers make sure that they catch the signal (fault.h), or have the
 * kernel copy. They look at the seals themselves (import.h).
 *
 * An allocation of a GPU is such a file too: others open it by a handle of the GPU's driver (gpu.h).
 *
 * When the last region of a file is closed, local peers are told to unmap it, so that the program can free its memory.
 * Any thread may call. */
#ifndef UROCE_EXPORT_H
#define UROCE_EXPORT_H

#include <stdint.h>

struct share;
struct gpu_memory;

struct exported {
	uint32_t file; /* as in struct share_region; 0: not exported */
	uint64_t offset, mapped;
};

/* export_make(): call it before a writable region is opened. export_release(): after it is closed and settled; `file`
 * is the number that export_make() returned, stored in private memory. */
void export_make(struct share *s, void *address, uint64_t length, struct exported *where);
/* The same for a region at `address` in memory of a GPU. */
void export_make_gpu(struct share *s, const struct gpu_memory *gpu, uint64_t address, uint64_t length,
		     struct exported *where);
void export_release(struct share *s, uint32_t file);

#endif
