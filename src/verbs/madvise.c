/* SPDX-License-Identifier: BSD-2-Clause */
/* madvise(2), in front of the C library's: allocators that hand out zeros (jemalloc) count on MADV_DONTNEED to empty
 * private memory, which it does not do to memory that has been made shareable (memory/shareable.h). */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/shareable.h"
#include "verbs/front.h"

PUBLIC int madvise(void *address, size_t length, int advice)
{
	int result = (int)syscall(SYS_madvise, address, length, advice);

	if (result == 0 && advice == MADV_DONTNEED)
		shareable_emptied(address, length);
	return result;
}
