/* SPDX-License-Identifier: BSD-2-Clause */
/* memfds: files in memory that are shared with other processes. Any thread may call. */
#ifndef UROCE_MEMFD_H
#define UROCE_MEMFD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* memfd_create(2), also for hosts that allow only memfds that are never executable (vm.memfd_noexec). Returns a
 * descriptor, or -1 and errno. */
int memfd_new(const char *name, unsigned flags);

/* Makes a memfd of `bytes` zero bytes with a sealed size, close-on-exec. `flags` are those of memfd_create(2);
 * MFD_ALLOW_SEALING: more seals will follow. Returns a descriptor or -errno. -EFBIG if the size of files is limited
 * (RLIMIT_FSIZE), since exceeding the limit would end the program by a signal. */
int memfd_of_size(const char *name, unsigned flags, uint64_t bytes);

/* Writes the first `bytes` bytes of a memfd. 0 or -errno, as memfd_of_size(). */
int memfd_fill(int fd, const void *from, uint64_t bytes);

/* Seals the memfd: from now on only existing mappings can write to it. 0 or -errno. */
int memfd_end_writes(int fd);

/* True if a descriptor from another process is a memfd of `bytes` bytes with a sealed size, and of pages that the
 * kernel has. Without the seal, or of huge pages, any access to it could raise a signal. */
bool memfd_is_fixed(int fd, uint64_t bytes);
/* True if the file is of hugetlbfs. */
bool memfd_is_huge(int fd);
/* memfd_is_fixed(), and the memfd is of this user. */
bool memfd_is_ours(int fd, uint64_t bytes);

/* Opens a memfd of that name among the open files of a process, which may be stopped. -1: none, or not to be had. */
int memfd_of_process(pid_t pid, const char *name);

/* Opens a memfd of that name and size, if memfd_is_ours(), of any other process of this network namespace. -1: as
 * above. */
int memfd_of_any(const char *name, uint64_t bytes);

#endif
