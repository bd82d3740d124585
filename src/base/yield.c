/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/yield.h"

#include <sys/syscall.h>
#include <unistd.h>

void processor_yield(void)
{
	syscall(SYS_sched_yield);
}
