/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/barrier.h"

#include <linux/membarrier.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LONG 10000000 /* ns, after which what a processor stored has been seen by all */

/* Relaxed: set by the first barrier_start(), which comes before all use. */
static _Atomic bool has_threads, has_processes;

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

void barrier_start(void)
{
	int known = membarrier(MEMBARRIER_CMD_QUERY);

	if (known < 0)
		return;
	if ((known & MEMBARRIER_CMD_PRIVATE_EXPEDITED) && !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		atomic_store_explicit(&has_threads, true, memory_order_relaxed);
	if (BARRIER_KNOWN && (known & MEMBARRIER_CMD_GLOBAL_EXPEDITED) &&
	    !membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED))
		atomic_store_explicit(&has_processes, true, memory_order_relaxed);
}

bool barrier_has_threads(void)
{
	return atomic_load_explicit(&has_threads, memory_order_relaxed);
}

bool barrier_has_processes(void)
{
	return atomic_load_explicit(&has_processes, memory_order_relaxed);
}

/* A process that has forbidden itself the call since (seccomp) waits instead. */
static void make(int command)
{
	if (membarrier(command))
		nanosleep(&(struct timespec){.tv_nsec = LONG}, NULL);
}

void barrier_threads(void)
{
	make(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void barrier_processes(void)
{
	make(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}
