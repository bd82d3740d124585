/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/barrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic bool barrier_works;

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

static bool has(int command)
{
	int commands = membarrier(MEMBARRIER_CMD_QUERY);

	return BARRIER_KNOWN && commands > 0 && (commands & command);
}

void barrier_prepare(void)
{
	int saved = errno;

	if (!barrier_is_ours() && has(MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
	    !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		atomic_store_explicit(&barrier_works, true, memory_order_relaxed);
	errno = saved;
}

bool barrier_here(void)
{
	return !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool barrier_join(void)
{
	return has(MEMBARRIER_CMD_GLOBAL_EXPEDITED) && !membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

void barrier_everywhere(void)
{
	membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

/* Registers at start-up: in a process with threads, each registration waits for all processors, 10 ms and more. */
__attribute__((constructor)) static void barrier_be_early(void)
{
	barrier_prepare();
	barrier_join();
}
