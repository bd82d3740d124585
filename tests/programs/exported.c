// SPDX-License-Identifier: BSD-2-Clause
/* exported polls|sleeps|computes: two processes, one of which registers a SysV segment. The other does WRITEs, READs
 * and atomics there by itself. When the region has been deregistered, the segment is the first one's alone again,
 * though the other only polls a completion queue, sleeps at it, or does nothing of the kind; and so it is round after
 * round, of which some come before the two have met and go by packets. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include "rc.h"

enum {
	SIZE = 8192,
	ROUNDS = 10,
};

static void tell(struct rc *rc)
{
	MUST(send(rc->tcp, "", 1, MSG_NOSIGNAL) == 1);
}

static void hear(struct rc *rc)
{
	char byte;

	MUST(recv(rc->tcp, &byte, 1, 0) == 1);
}

static void meet(struct rc *rc, int fd)
{
	rc_open(rc, NULL, 0, SIZE);
	rc->tcp = fd;
	MUST(send(fd, &rc->me, sizeof(rc->me), 0) == sizeof(rc->me));
	MUST(recv(fd, &rc->peer, sizeof(rc->peer), MSG_WAITALL) == sizeof(rc->peer));
	rc_connect(rc);
	tell(rc);
	hear(rc);
}

/* ---- the one that visits ---- */

static void use(struct rc *rc)
{
	for (int i = 0; i < SIZE; i++)
		rc->memory[i] = (uint8_t)(i * 7);
	rc_post(rc, IBV_WR_RDMA_WRITE, 0, 0, SIZE);
	rc_expect(rc_poll(rc), IBV_WC_RDMA_WRITE);
	memset(rc->memory, 0, SIZE);
	rc_post(rc, IBV_WR_RDMA_READ, 0, 0, SIZE);
	rc_expect(rc_poll(rc), IBV_WC_RDMA_READ);
	for (int i = 0; i < SIZE; i++)
		MUST(rc->memory[i] == (uint8_t)(i * 7));
	rc_post(rc, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 8);
	rc_expect(rc_poll(rc), IBV_WC_FETCH_ADD);
	tell(rc);
}

static void visitor(struct rc *rc, const char *how)
{
	while (recv(rc->tcp, &rc->peer, sizeof(rc->peer), MSG_WAITALL) == sizeof(rc->peer)) {
		struct ibv_wc wc;

		use(rc);
		rc_post_receive(rc, 0, 64);
		if (!strcmp(how, "sleeps"))
			rc_expect(rc_sleep(rc), IBV_WC_RECV);
		else if (!strcmp(how, "polls"))
			rc_expect(rc_poll(rc), IBV_WC_RECV);
		else
			for (hear(rc); !ibv_poll_cq(rc->cq, 1, &wc);)
				;
	}
	exit(0);
}

/* ---- the one that lends ---- */

static int attached(int segment)
{
	struct shmid_ds ds;

	MUST(!shmctl(segment, IPC_STAT, &ds));
	return (int)ds.shm_nattch;
}

/* True: the other has mapped it. */
static bool export_make(struct rc *rc, const char *how)
{
	struct card card = rc->me;
	int segment = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
	uint8_t *at = shmat(segment, NULL, 0);
	struct ibv_mr *mr;
	bool mapped;

	MUST(at != (void *)-1);
	MUST(mr = ibv_reg_mr(rc->pd, at, SIZE,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				     IBV_ACCESS_REMOTE_ATOMIC));
	card.address = (uintptr_t)at;
	card.rkey = mr->rkey;
	MUST(send(rc->tcp, &card, sizeof(card), 0) == sizeof(card));
	hear(rc);
	MUST(at[SIZE - 1] == (uint8_t)((SIZE - 1) * 7) && at[8] == (uint8_t)(8 * 7 + 1));
	mapped = attached(segment) == 2;
	ZERO(ibv_dereg_mr(mr));
	MUST(!shmdt(at));
	while (attached(segment)) /* the other's helper thread looks soon */
		sched_yield();
	MUST(!shmctl(segment, IPC_RMID, NULL));
	rc_post(rc, IBV_WR_SEND, 0, 0, 64);
	rc_expect(rc_poll(rc), IBV_WC_SEND);
	if (!strcmp(how, "computes"))
		tell(rc);
	return mapped;
}

int main(int argc, char **argv)
{
	int ends[2], status, mapped = 0;
	bool can = !getenv("UROCE_LOCAL"); /* else it is off */
	struct rc rc;
	pid_t pid;

	MUST(argc == 2 && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	meet(&rc, ends[pid != 0]);
	close(ends[pid == 0]);
	if (pid == 0)
		visitor(&rc, argv[1]);
	for (int i = 0; i < ROUNDS || (can && !mapped); i++)
		mapped += export_make(&rc, argv[1]);
	close(rc.tcp);
	MUST(waitpid(pid, &status, 0) == pid);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}
