// SPDX-License-Identifier: BSD-2-Clause
/* crowded: a thread that polls in vain beside a process that computes, on one processor, goes to sleep between its
 * polls. Without that this program does not end. A yield does not count as sleep, nor does it hand the processor over
 * to the peer that is to answer. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "rc.h"

/* To one of the processors that this program may use. */
static void stay(void)
{
	cpu_set_t all, one;
	int cpu = 0;

	MUST(!sched_getaffinity(0, sizeof(all), &all));
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	MUST(!sched_setaffinity(0, sizeof(one), &one));
}

static pid_t compute(void)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		__asm__ volatile("");
}

/* Of this thread. */
static long sleeps(void)
{
	FILE *f = fopen("/proc/thread-self/status", "r");
	char line[200];
	long n = -1;

	MUST(f);
	while (n < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "voluntary_ctxt_switches: %ld", &n);
	fclose(f);
	MUST(n >= 0);
	return n;
}

int main(void)
{
	struct rc a, b;
	struct ibv_wc wc;
	pid_t other;
	long before;

	stay();
	other = compute();
	rc_open(&a, NULL, 0, 4096);
	rc_open(&b, &a, 0, 4096);
	rc_connect_pair(&a, &b);
	before = sleeps();
	while (sleeps() < before + 10)
		for (int i = 0; i < 1000; i++)
			MUST(!ibv_poll_cq(a.cq, 1, &wc));
	rc_post_receive(&b, 0, 8);
	rc_post(&a, IBV_WR_SEND, 0, 0, 8);
	rc_expect(rc_poll(&a), IBV_WC_SEND);
	rc_expect(rc_poll(&b), IBV_WC_RECV);
	kill(other, SIGKILL);
	puts("crowded: slept");
	return 0;
}
