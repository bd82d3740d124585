// SPDX-License-Identifier: BSD-2-Clause
/* What programs share of which some die: one process stays, another, the bystander, is connected to it all the time,
 * and victims come and are killed. The one that stays is left with no descriptor and no memory of the dead. */
#ifndef TEST_SURVIVOR_H
#define TEST_SURVIVOR_H

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
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
	HEAP_SLACK = 131072, /* bytes that pools and the like may grow in the second half of the rounds; a thread's
				first UDP train is 83,000 */
	BYSTANDER = 1,
	VICTIM = 2,
	THE_END = 3, /* who calls */
};

static uint64_t seed;

static inline uint32_t dice(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static inline struct sockaddr_un meeting_point(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "uroce-test-killed-%d", (int)getpgrp());
	return a;
}

static inline int call(uint32_t who)
{
	struct sockaddr_un a = meeting_point();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)));
	MUST(send(fd, &who, sizeof(who), MSG_NOSIGNAL) == sizeof(who));
	return fd;
}

/* Cards are exchanged and the QP is connected. False: the other end is gone. */
static inline bool meet(struct rc *rc, int fd)
{
	char byte = 0;

	rc->tcp = fd;
	if (send(fd, &rc->me, sizeof(rc->me), MSG_NOSIGNAL) != sizeof(rc->me) ||
	    recv(fd, &rc->peer, sizeof(rc->peer), MSG_WAITALL) != sizeof(rc->peer))
		return false;
	rc_connect(rc);
	return send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, MSG_WAITALL) == 1;
}

static inline void bystander(int meets)
{
	int fd = call(BYSTANDER);
	struct rc rc;

	rc_open(&rc, NULL, 0, 64);
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

static inline int accept_from(int listener, uint32_t *who)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	MUST(fd >= 0);
	if (recv(fd, who, sizeof(*who), MSG_WAITALL) != sizeof(*who))
		*who = 0;
	return fd;
}

static inline void ping(struct rc *rc)
{
	int left = 2;

	rc_post_receive(rc, 0, 64);
	for (rc_post(rc, IBV_WR_SEND, 0, 0, 64); left; left--)
		MUST(rc_sleep(rc).status == IBV_WC_SUCCESS);
}

/* A socket that is connected to the adapter of an address: one to an address at most, opened when much has been sent
 * there. */
static inline bool is_way(int fd)
{
	struct sockaddr_in6 to; /* an IPv4 address has its port there, too */
	socklen_t size = sizeof(to);

	return getpeername(fd, (struct sockaddr *)&to, &size) == 0 &&
	       (to.sin6_family == AF_INET || to.sin6_family == AF_INET6) && ntohs(to.sin6_port) == 4791;
}

/* A socket that is connected to that of another process: for packets that are handed over to it, eight at most, and
 * kept when it is gone (host/handover.h). No other AF_UNIX datagram socket of uroce lacks a name. */
static inline bool is_receiver(int fd)
{
	struct sockaddr_un own;
	socklen_t size = sizeof(own), int_size = sizeof(int);
	int type = 0;

	return getsockname(fd, (struct sockaddr *)&own, &size) == 0 && own.sun_family == AF_UNIX &&
	       size == sizeof(own.sun_family) && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &int_size) == 0 &&
	       type == SOCK_DGRAM;
}

static inline int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int n = 0, ways = 0, receivers = 0;

	MUST(dir);
	while ((entry = readdir(dir)) != NULL) {
		n++;
		ways += is_way(atoi(entry->d_name));
		receivers += is_receiver(atoi(entry->d_name));
	}
	closedir(dir);
	MUST(ways <= 1 && receivers <= 8);
	return n - ways - receivers;
}

/* How much memory of ours and of local peers is mapped here: rings, tables, what regions moved into. */
static inline int count_memories(void)
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

/* Whether there is a ring each way, or there is to be none. */
static inline bool has_met(void)
{
	const char *local = getenv("UROCE_LOCAL");
	char line[512];
	int n = 0;
	FILE *f;

	if (local && !strcmp(local, "off"))
		return true;
	f = fopen("/proc/self/maps", "r");
	MUST(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:uroce-ring") != NULL;
	fclose(f);
	return n >= 4; /* each is mapped twice */
}

/* The helper thread puts away what was another's: soon. Unless the next one has called: it may have the slot of the one
 * before, be a local peer by now, and wait for us. */
static inline bool has_only(int descriptors, int memories)
{
	return count_descriptors() == descriptors && count_memories() == memories;
}

static inline bool is_called(int listener)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static inline size_t heap(void)
{
	return mallinfo2().uordblks;
}

/* The life of the one that stays: as often as a victim calls, episode(base, fd); and in between all of the dead is put
 * away, and the third process answers. Returns how often somebody called. */
static inline int survive(int listener, int expected, size_t size, void (*episode)(struct rc *base, int fd))
{
	int descriptors, memories, rounds = 0;
	size_t half_way = 0;
	uint32_t who;
	struct rc base;
	int fd;

	while ((fd = accept_from(listener, &who)), who != BYSTANDER)
		close(fd); /* a victim that was faster */
	rc_open(&base, NULL, 0, size);
	MUST(meet(&base, fd));
	do /* until what it costs is all there */
		ping(&base);
	while (!has_met());
	descriptors = count_descriptors();
	memories = count_memories();
	for (; (fd = accept_from(listener, &who)), who != THE_END; rounds++) {
		if (who == VICTIM)
			episode(&base, fd);
		close(fd);
		ping(&base);
		while (!has_only(descriptors, memories) && !is_called(listener))
			sched_yield();
		if (rounds == expected / 2)
			half_way = heap();
	}
	close(fd);
	while (!has_only(descriptors, memories))
		sched_yield();
	MUST(!half_way || heap() <= half_way + HEAP_SLACK);
	return rounds;
}

/* ---- the one that kills ---- */

/* *meets: where it says that it is connected, or was turned away. */
static inline pid_t start(void (*role)(int meets), int *meets)
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

static inline void end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	MUST(waitpid(pid, &status, 0) == pid);
	/* a victim may only die of us */
	MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Starts the one that stays and the bystander, with ROUNDS [SEED] from the command line; returns the rounds. */
struct party {
	pid_t stays, third;
};

static inline int gather(struct party *p, int argc, char **argv, void (*survivor)(int listener, int rounds))
{
	int rounds, listener, meets;
	struct sockaddr_un a;

	MUST(argc >= 2);
	setpgid(0, 0);
	rounds = atoi(argv[1]);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	a = meeting_point();
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	MUST(!bind(listener, (struct sockaddr *)&a, sizeof(a)) && !listen(listener, 64));
	p->stays = fork();
	MUST(p->stays >= 0);
	if (p->stays == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		survivor(listener, rounds);
	}
	close(listener);
	p->third = start(bystander, &meets);
	return rounds;
}

/* All is well with the one that stays. */
static inline void disperse(struct party *p)
{
	int status;

	close(call(THE_END));
	MUST(waitpid(p->stays, &status, 0) == p->stays);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	end(p->third);
}

#endif
