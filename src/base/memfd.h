/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is a file, to be shared with other processes. */
#ifndef UROCE_MEMFD_H
#define UROCE_MEMFD_H

#include <stdbool.h>
#include <stdint.h>

/* memfd_create(2), for hosts that allow only memory that is never executable (vm.memfd_noexec) as well. A descriptor,
 * or -1 and errno. */
int memfd_new(const char *name, unsigned flags);

/* A new memfd of so many bytes, all zero, closed by execve(2), whose size nobody can change; flags: of memfd_create(2),
 * MFD_ALLOW_SEALING: more seals are to come. A descriptor or -errno: -EFBIG where the size of files is limited
 * (RLIMIT_FSIZE), which would end the program by a signal. */
int memfd_of_size(const char *name, unsigned flags, uint64_t bytes);

/* From now on only what is mapped already can write to it. 0 or -errno. */
int memfd_end_writes(int fd);

/* Whether a descriptor from another process is a memfd of so many bytes that stays as long: else an access to it could
 * be a signal at any time. */
bool memfd_is_fixed(int fd, uint64_t bytes);

#endif
