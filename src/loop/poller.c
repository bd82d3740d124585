/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/poller.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc_state.h"
#include "loop/tuned.h"

_Thread_local pid_t poller_self;

void poller_learn_self(void)
{
	poller_self = (pid_t)syscall(SYS_gettid);
}

/* Processor time of a thread, in ns; 0: this process has no such thread. */
static uint64_t thread_used(pid_t thread)
{
	/* as pthread_getcpuclockid(3); the low bits: of one thread, by the scheduler */
	clockid_t id = (clockid_t)(~(unsigned)thread << 3 | 4 | 2);
	struct timespec t;

	return clock_gettime(id, &t) ? 0 : (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}

uint32_t poller_waits(struct poller *p, uint64_t now, uint64_t polled)
{
	pid_t thread = atomic_load_explicit(&p->thread, memory_order_relaxed);
	uint64_t used = thread ? thread_used(thread) : 0;
	bool computes = used - p->used > (now - p->at) / 2; /* more than half of the time */
	bool polls = polled != p->polled, known = p->used;
	uint32_t excused = polls ? 0 : p->excused;
	bool waits;

	p->at = now;
	p->polled = polled;
	p->used = used;
	if (p->sure)
		waits = excused < EXCUSES && !(excused && computes);
	else
		waits = polls && known && !computes;
	waits = waits && used && proc_state(getpid(), thread) == 'R';
	p->crowded = waits && polls ? p->crowded + 1 : 0;
	p->sure = waits && (p->sure || p->crowded > LOOKS_SURE);
	p->excused = waits ? excused + 1 : 0;
	return p->excused;
}
