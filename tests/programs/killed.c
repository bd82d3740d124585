// SPDX-License-Identifier: BSD-2-Clause
/* killed ROUNDS [SEED]: in each round a process starts, connects to one that stays, and is killed at some
 * moment between its start and 20 ms later, or of the 2 ms after it has connected. Either keeps many requests
 * of all kinds in flight, or does one one-sided operation after the other, on memory of the other that is
 * shared or (as pages are locked then) private; the victim may register memory meanwhile. The one that stays
 * gets its completion errors, goes on with a third process, and is left with no descriptor and no memory of
 * the dead. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "rc.h"

enum {
	SIZE = 40000,
	IN_FLIGHT = 8,
	FROM_START = 20000, /* us */
	FROM_MEETING = 2000,
	HEAP_SLACK = 65536, /* bytes that pools and the like may grow in the second half of the rounds */
	BYSTANDER = 1,
	VICTIM = 2,
	THE_END = 3, /* who calls */
};

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

/* Which of the requests, how many at a time, whether memory is registered between them, and whether
 * completions are waited for asleep. */
struct traffic {
	uint32_t first_kind, in_flight;
	bool registers, sleeps;
};

static struct traffic any_traffic(void)
{
	return dice(2) ? (struct traffic){0, IN_FLIGHT, .sleeps = dice(2)}
		       : (struct traffic){2, 1, .registers = dice(2)};
}

static void post_any(struct rc *rc, uint32_t first)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t least, most;
	} kinds[] = {
		{IBV_WR_SEND, 1, SIZE},
		{IBV_WR_SEND, 1, 64},
		{IBV_WR_RDMA_WRITE, 1, SIZE},
		{IBV_WR_RDMA_WRITE, 1, 8},
		{IBV_WR_RDMA_READ, 1, SIZE},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 8, 8},
	};
	uint32_t kind = first + dice(sizeof(kinds) / sizeof(kinds[0]) - first);

	rc_post(rc, kinds[kind].opcode, 0, 0,
		kinds[kind].least + dice(kinds[kind].most - kinds[kind].least + 1));
}

static void register_some(struct rc *rc)
{
	size_t size = (1 + dice(16)) * 4096;
	void *at =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct ibv_mr *mr;

	MUST(at != MAP_FAILED);
	MUST(mr = ibv_reg_mr(rc->pd, at, size, IBV_ACCESS_LOCAL_WRITE));
	ZERO(ibv_dereg_mr(mr));
	MUST(!munmap(at, size));
}

/* Traffic until something fails; then all the rest is flushed. */
static enum ibv_wc_status exchange(struct rc *rc)
{
	struct traffic t = any_traffic();
	uint32_t left = IN_FLIGHT + t.in_flight;
	enum ibv_wc_status first;
	struct ibv_wc wc;

	for (int i = 0; i < IN_FLIGHT; i++)
		rc_post_receive(rc, 0, SIZE);
	for (uint32_t i = 0; i < t.in_flight; i++)
		post_any(rc, t.first_kind);
	while ((wc = t.sleeps ? rc_sleep(rc) : rc_poll(rc)).status == IBV_WC_SUCCESS) {
		if (wc.opcode & IBV_WC_RECV)
			rc_post_receive(rc, 0, SIZE);
		else
			post_any(rc, t.first_kind);
		if (t.registers && !dice(8))
			register_some(rc);
	}
	first = wc.status;
	while (--left)
		MUST(rc_poll(rc).status == IBV_WC_WR_FLUSH_ERR);
	return first;
}

/* What is registered while a page is locked is not moved to where others can map it. */
static void lock_a_page_or_not(void)
{
	static _Alignas(4096) char page[4096];

	ZERO(dice(2) ? mlock(page, sizeof(page)) : munlock(page, sizeof(page)));
}

static void victim(int meets)
{
	int fd = call(VICTIM);
	struct rc rc;
	bool met;

	lock_a_page_or_not();
	rc_open(&rc, NULL, 0, SIZE);
	met = meet(&rc, fd);
	MUST(write(meets, "", 1) == 1);
	if (met)
		exchange(&rc);
	for (;;)
		pause();
}

static void bystander(int meets)
{
	int fd = call(BYSTANDER);
	struct rc rc;

	rc_open(&rc, NULL, 0, SIZE);
	for (int i = 0; i < 4; i++)
		rc_post_receive(&rc, 0, 64);
	MUST(meet(&rc, fd));
	MUST(write(meets, "", 1) == 1);
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

/* How much memory of ours and of neighbors is mapped here: rings, tables, what regions moved into. */
static int count_memories(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long inode, seen[64];
	char line[512];
	int n = 0;

	MUST(f);
	while (fgets(line, sizeof(line), f)) {
		int known = 0;

		if (!strstr(line, "memfd:uroce") || sscanf(line, "%*s %*s %*s %*s %lu", &inode) != 1)
			continue;
		while (known < n && seen[known] != inode)
			known++;
		if (known == n && n < 64)
			seen[n++] = inode;
	}
	fclose(f);
	return n;
}

static size_t heap(void)
{
	return mallinfo2().uordblks;
}

static void episode(struct rc *base, int fd, int statuses[])
{
	struct rc rc;

	lock_a_page_or_not();
	rc_open(&rc, base, 0, SIZE);
	rc.timeout = 1;
	rc.retry_cnt = 1;
	if (meet(&rc, fd))
		statuses[exchange(&rc)]++;
	rc_close(&rc);
}

static void survivor(int listener, int expected)
{
	int statuses[64] = {0}, descriptors, memories, rounds = 0;
	size_t half_way = 0;
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
	memories = count_memories();
	for (; (fd = accept_from(listener, &who)), who != THE_END; rounds++) {
		if (who == VICTIM)
			episode(&base, fd, statuses);
		close(fd);
		ping(&base);
		/* the helper thread puts away what was the dead one's: soon */
		while (count_descriptors() != descriptors || count_memories() != memories)
			sched_yield();
		if (rounds == expected / 2)
			half_way = heap();
	}
	printf("%d met;", rounds);
	for (int i = 0; i < 64; i++)
		if (statuses[i])
			printf(" %s: %d;", ibv_wc_status_str((enum ibv_wc_status)i), statuses[i]);
	printf(" heap %+td\n", (ptrdiff_t)(heap() - half_way));
	MUST(statuses[IBV_WC_SUCCESS] == 0);
	MUST(!half_way || heap() <= half_way + HEAP_SLACK);
	exit(0);
}

/* ---- the one that kills ---- */

/* *meets: where it says that it is connected, or was turned away. */
static pid_t start(void (*role)(int meets), int *meets)
{
	int ends[2];
	pid_t pid;

	MUST(!pipe2(ends, O_CLOEXEC));
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		role(ends[1]);
		exit(1);
	}
	close(ends[1]);
	*meets = ends[0];
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
	int rounds, listener, status, meets;
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
		survivor(listener, rounds);
	}
	close(listener);
	third = start(bystander, &meets);
	for (int i = 0; i < rounds; i++) {
		bool early = dice(2);
		pid_t pid = start(victim, &meets);
		char byte;

		if (!early)
			MUST(read(meets, &byte, 1) == 1);
		usleep(dice(early ? FROM_START : FROM_MEETING));
		end(pid);
		close(meets);
	}
	close(call(THE_END));
	MUST(waitpid(stays, &status, 0) == stays);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	end(third);
	return 0;
}
