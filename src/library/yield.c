/* SPDX-License-Identifier: BSD-2-Clause */
/* sched_yield(2) in front of the C library's: a thread that gives up its processor between its polls needs no yields of
 * ours (progress/poll.c). */
#include <sched.h>

#include "base/clock.h"
#include "base/yield.h"
#include "device/front.h"
#include "progress/poll.h"

PUBLIC int sched_yield(void)
{
	uint64_t begin = clock_now();

	processor_yield();
	loop_yielded(clock_now() - begin);
	return 0;
}
