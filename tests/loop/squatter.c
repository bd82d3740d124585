// SPDX-License-Identifier: BSD-2-Clause
#include "loop/squatter.h"

#include <assert.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "host/introduction.h"
#include "host/slot.h"

enum { OTHER = 12345, DESCRIPTORS = 3 * SLOTS + 50 };

static char folder[] = "/tmp/uroce-names-XXXXXX";

bool squatter_is_possible(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_max < DESCRIPTORS) {
		printf("# another user needs %d descriptors (ulimit -Hn)\n", DESCRIPTORS);
		return false;
	}
	if (!geteuid() && !setresuid(0, 0, OTHER) && !setresuid(0, 0, 0))
		return true;
	printf("# one user alone is here\n");
	return false;
}

static void squat(int type, const struct sockaddr_un *a, socklen_t size)
{
	int fd = socket(AF_UNIX, type, 0);

	if (!bind(fd, (const struct sockaddr *)a, size) && type == SOCK_SEQPACKET)
		listen(fd, 1);
}

static void squat_all(uid_t victim)
{
	struct sockaddr_un a;
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = max_of(limit.rlim_cur, (rlim_t)DESCRIPTORS);
	setrlimit(RLIMIT_NOFILE, &limit);
	squat(SOCK_SEQPACKET, &a, slot_abstract(&a, "%u/lock", victim));
	for (unsigned i = 1; i <= SLOTS; i++) {
		squat(SOCK_DGRAM, &a, slot_address(&a, (uint16_t)i));
		squat(SOCK_SEQPACKET, &a, slot_abstract(&a, "%u/registry/%u", victim, i));
		squat(SOCK_SEQPACKET, &a, slot_abstract(&a, "%u/local-%u/%u", victim, INTRODUCTION_VERSION, i));
	}
}

pid_t squatter_start(void)
{
	uid_t victim = geteuid();
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready))
		abort();
	pid = fork();
	if (pid == 0) {
		if (setresuid(OTHER, OTHER, OTHER) || prctl(PR_SET_PDEATHSIG, SIGKILL))
			_exit(1);
		squat_all(victim);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		abort();
	close(ready[0]);
	return pid;
}

void squatter_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

void names_folder_make(void)
{
	if (!mkdtemp(folder))
		abort();
	setenv("XDG_RUNTIME_DIR", folder, 1);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	return remove(path);
}

void names_folder_remove(void)
{
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
