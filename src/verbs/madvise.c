/* SPDX-License-Identifier: BSD-2-Clause */
/* madvise(2), in front of the C library's: allocators that hand out zeros (jemalloc) count on MADV_DONTNEED to empty
 * private memory, which it does not do to memory that has been made shareable (memory/shareable.h). The call goes on to
 * the next library, as UCX hooks the C library's function and tries whether it is called. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/shareable.h"
#include "verbs/front.h"

static int (*next_madvise)(void *address, size_t length, int advice);

/* dlsym(3) may allocate, and an allocator that calls us may hold its locks: so it is not called from there. */
__attribute__((constructor(101))) static void find_next_madvise(void)
{
	next_madvise = dlsym(RTLD_NEXT, "madvise");
}

PUBLIC int madvise(void *address, size_t length, int advice)
{
	int result = next_madvise ? next_madvise(address, length, advice)
				  : (int)syscall(SYS_madvise, address, length, advice);

	if (result == 0 && advice == MADV_DONTNEED)
		shareable_emptied(address, length);
	return result;
}
