/* SPDX-License-Identifier: BSD-2-Clause */
/* madvise(2) in front of the C library's. Some allocators (jemalloc) rely on MADV_DONTNEED to zero private memory; it
 * does not do that for memory that was made shareable, so shareable_emptied() is called then (memory/shareable.h). The
 * call goes to the next library, because UCX hooks the C library's function and tests the hook. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/front.h"
#include "memory/shareable.h"

static int (*next_madvise)(void *address, size_t length, int advice);

/* dlsym(3) may allocate, and an allocator that calls madvise() may hold its locks. So dlsym(3) is called once, at
 * start. */
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
