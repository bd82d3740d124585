// SPDX-License-Identifier: BSD-2-Clause
/* full: a process that is stopped is sent more than anything between it and the sender holds. Then it goes on, and
 * takes what comes in each way that a program may: polling, slowly, asleep, at work on other things, or spinning on its
 * memory; while the sender polls, or sleeps. All arrives. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "rc.h"

enum { LENGTH = 3000, COUNT = 256, SIZE = LENGTH * COUNT };

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + i / 251 + 1);
}

static void meet(struct rc *rc, int fd)
{
	rc_open(rc, NULL, 0, SIZE);
	rc->tcp = fd;
	MUST(send(fd, &rc->me, sizeof(rc->me), 0) == sizeof(rc->me));
	MUST(recv(fd, &rc->peer, sizeof(rc->peer), MSG_WAITALL) == sizeof(rc->peer));
	rc_connect(rc);
}

/* ---- who receives ---- */

static void polls(struct rc *rc)
{
	for (int i = 0; i < COUNT / 2; i++)
		rc_expect(rc_poll(rc), IBV_WC_RECV);
}

static void is_slow(struct rc *rc)
{
	static volatile uint8_t sink;

	for (int i = 0; i < COUNT / 2; i++) {
		rc_expect(rc_poll(rc), IBV_WC_RECV);
		for (int n = 0; n < 100000; n++)
			sink++;
	}
}

static void sleeps(struct rc *rc)
{
	for (int i = 0; i < COUNT / 2; i++)
		rc_expect(rc_sleep(rc), IBV_WC_RECV);
}

/* It does not look at the device before all has been sent. */
static void is_at_work(struct rc *rc)
{
	char byte;

	while (recv(rc->tcp, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
		;
	polls(rc);
}

static void spins(struct rc *rc)
{
	while (*(volatile uint8_t *)&rc->memory[SIZE - 1] != pattern(SIZE - 1))
		;
	polls(rc);
}

static void (*const ways[])(struct rc *rc) = {polls, is_slow, sleeps, is_at_work, spins};

static void receive(void (*way)(struct rc *rc), int fd)
{
	struct rc rc;
	char byte;

	meet(&rc, fd);
	for (size_t i = 0; i < COUNT; i += 2)
		rc_post_receive(&rc, i * LENGTH, LENGTH);
	MUST(rc_barrier(&rc));
	raise(SIGSTOP);
	way(&rc);
	MUST(recv(fd, &byte, 1, 0) == 1); /* by then what was written is there too */
	for (size_t i = 0; i < SIZE; i++)
		MUST(rc.memory[i] == pattern(i));
	rc_close(&rc);
}

/* ---- who sends ---- */

static void send_all(pid_t pid, struct ibv_wc (*next)(struct rc *rc), int fd)
{
	struct ibv_wc wc;
	struct rc rc;
	int status;

	meet(&rc, fd);
	for (size_t i = 0; i < SIZE; i++)
		rc.memory[i] = pattern(i);
	MUST(rc_barrier(&rc));
	MUST(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	for (size_t i = 0; i < COUNT; i++)
		rc_post(&rc, i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, i * LENGTH, i * LENGTH, LENGTH);
	MUST(ibv_poll_cq(rc.cq, 1, &wc) == 0);
	MUST(!kill(pid, SIGCONT));
	for (int i = 0; i < COUNT; i++)
		rc_expect(next(&rc), i % 2 ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
	MUST(send(fd, "", 1, 0) == 1);
	rc_close(&rc);
}

int main(void)
{
	int ends[2], status;
	pid_t pid;

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < 2 * sizeof(ways) / sizeof(ways[0]); i++)
		if (pid == 0)
			receive(ways[i / 2], ends[1]);
		else
			send_all(pid, i % 2 ? rc_sleep : rc_poll, ends[0]);
	if (pid)
		MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}
