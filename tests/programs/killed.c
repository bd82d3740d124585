// SPDX-License-Identifier: BSD-2-Clause
/* killed ROUNDS [SEED]: in each round a process starts, connects to one that stays, keeps requests of all kinds in flight
 * both ways, and is killed at some moment between its start and 20 ms later. The one that stays gets its completion
 * errors, goes on with a third process, and is left with no descriptor and no memory of the dead. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "rc.h"

enum { SIZE = 40000, IN_FLIGHT = 8, MOST_MS = 20, BYSTANDER = 1, VICTIM = 2, THE_END = 3 };

static uint64_t seed;

static uint32_t dice(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static struct sockaddr_un meeting_point(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "uroce-test-killed-%d", (int)getpgrp());
	return a;
}

static int call(uint32_t who)
{
	struct sockaddr_un a = meeting_point();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)));
	MUST(send(fd, &who, sizeof(who), MSG_NOSIGNAL) == sizeof(who));
	return fd;
}

/* Cards are exchanged and the QP is connected. False: the other end is gone. */
static bool meet(struct rc *rc, int fd)
{
	char byte = 0;

	rc->tcp = fd;
	if (send(fd, &rc->me, sizeof(rc->me), MSG_NOSIGNAL) != sizeof(rc->me) ||
	    recv(fd, &rc->peer, sizeof(rc->peer), MSG_WAITALL) != sizeof(rc->peer))
		return false;
	rc_connect(rc);
	return send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, MSG_WAITALL) == 1;
}

static void post_any(struct rc *rc)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t most;
	} kinds[] = {
		{IBV_WR_SEND, SIZE},
		{IBV_WR_SEND, 64},
		{IBV_WR_RDMA_WRITE, SIZE},
		{IBV_WR_RDMA_WRITE, 8},
		{IBV_WR_RDMA_READ, SIZE},
	};
	uint32_t kind = dice(5);

	rc_post(rc, kinds[kind].opcode, 0, 0, dice(kinds[kind].most) + 1);
}

/* Traffic until something fails; then all the rest is flushed. */
static enum ibv_wc_status exchange(struct rc *rc)
{
	enum ibv_wc_status first;
	uint32_t left = 2 * IN_FLIGHT;
	struct ibv_wc wc;

	for (int i = 0; i < IN_FLIGHT; i++) {
		rc_post_receive(rc, 0, SIZE);
		post_any(rc);
	}
	while ((wc = rc_poll(rc)).status == IBV_WC_SUCCESS) {
		if (wc.opcode & IBV_WC_RECV)
			rc_post_receive(rc, 0, SIZE);
		else
			post_any(rc);
	}
	first = wc.status;
	while (--left)
		MUST(rc_poll(rc).status == IBV_WC_WR_FLUSH_ERR);
	return first;
}

static void victim(void)
{
	int fd = call(VICTIM);
	struct rc rc;

	rc_open(&rc, NULL, 0, SIZE);
	if (meet(&rc, fd))
		exchange(&rc);
	for (;;)
		pause();
}

static void bystander(void)
{
	int fd = call(BYSTANDER);
	struct rc rc;

	rc_open(&rc, NULL, 0, SIZE);
	for (int i = 0; i < 4; i++)
		rc_post_receive(&rc, 0, 64);
	MUST(meet(&rc, fd));
	for (;;) {
		struct ibv_wc wc = rc_sleep(&rc);

		MUST(wc.status == IBV_WC_SUCCESS);
		if (!(wc.opcode & IBV_WC_RECV))
			continue;
		rc_post_receive(&rc, 0, 64);
		rc_post(&rc, IBV_WR_SEND, 0, 0, 64);
	}
}

/* ---- the one that stays ---- */

static int accept_from(int listener, uint32_t *who)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	MUST(fd >= 0);
	if (recv(fd, who, sizeof(*who), MSG_WAITALL) != sizeof(*who))
		*who = 0;
	return fd;
}

static void ping(struct rc *rc)
{
	int left = 2;

	rc_post_receive(rc, 0, 64);
	for (rc_post(rc, IBV_WR_SEND, 0, 0, 64); left; left--)
		MUST(rc_sleep(rc).status == IBV_WC_SUCCESS);
}

static int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	MUST(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int count_rings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	MUST(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:uroce-ring") != NULL;
	fclose(f);
	return n;
}

static void episode(struct rc *base, int fd, int statuses[])
{
	struct rc rc;

	rc_open(&rc, base, 0, SIZE);
	rc.timeout = 1;
	rc.retry_cnt = 1;
	if (meet(&rc, fd))
		statuses[exchange(&rc)]++;
	rc_close(&rc);
}

static void survivor(int listener)
{
	int statuses[64] = {0}, descriptors, rings, rounds = 0;
	uint32_t who;
	struct rc base;
	int fd;

	while ((fd = accept_from(listener, &who)), who != BYSTANDER)
		close(fd); /* a victim that was faster */
	rc_open(&base, NULL, 0, SIZE);
	MUST(meet(&base, fd));
	for (int i = 0; i < 10; i++)
		ping(&base);
	descriptors = count_descriptors();
	rings = count_rings();
	for (; (fd = accept_from(listener, &who)), who != THE_END; rounds++) {
		if (who == VICTIM)
			episode(&base, fd, statuses);
		close(fd);
		ping(&base);
		/* the helper thread puts away what was the dead one's: soon */
		while (count_descriptors() != descriptors || count_rings() != rings)
			sched_yield();
	}
	printf("%d met;", rounds);
	for (int i = 0; i < 64; i++)
		if (statuses[i])
			printf(" %s: %d;", ibv_wc_status_str((enum ibv_wc_status)i), statuses[i]);
	printf(" rings %d\n", rings);
	MUST(statuses[IBV_WC_SUCCESS] == 0);
	exit(0);
}

/* ---- the one that kills ---- */

static pid_t start(void (*role)(void))
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		role();
		exit(1);
	}
	return pid;
}

static void end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	MUST(waitpid(pid, &status, 0) == pid);
	/* a victim may only die of us */
	MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(int argc, char **argv)
{
	int rounds, listener, status;
	struct sockaddr_un a;
	pid_t stays, third;

	MUST(argc >= 2);
	setpgid(0, 0);
	rounds = atoi(argv[1]);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	a = meeting_point();
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	MUST(!bind(listener, (struct sockaddr *)&a, sizeof(a)) && !listen(listener, 64));
	stays = fork();
	MUST(stays >= 0);
	if (stays == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		survivor(listener);
	}
	close(listener);
	third = start(bystander);
	for (int i = 0; i < rounds; i++) {
		pid_t pid;

		dice(2);
		pid = start(victim);
		usleep(dice(MOST_MS * 1000));
		end(pid);
	}
	close(call(THE_END));
	MUST(waitpid(stays, &status, 0) == stays);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	end(third);
	return 0;
}
