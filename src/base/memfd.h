/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is a file, to be shared with other processes. */
#ifndef UROCE_MEMFD_H
#define UROCE_MEMFD_H

#include <stdint.h>

/* memfd_create(2), for hosts that allow only memory that is never executable (vm.memfd_noexec) as well. A descriptor,
 * or -1 and errno. */
int memfd_new(const char *name, unsigned flags);

/* A new memfd of so many bytes, all zero, closed by execve(2); flags: of memfd_create(2). A descriptor or -errno:
 * -EFBIG where the size of files is limited (RLIMIT_FSIZE), which would end the program by a signal. */
int memfd_of_size(const char *name, unsigned flags, uint64_t bytes);

#endif
