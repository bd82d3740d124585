// SPDX-License-Identifier: BSD-2-Clause
/* ends HOW: leaves a completion queue, has a request fail, and ends in that way. */
#include "pair.h"

#include <signal.h>
#include <unistd.h>

static void end_of(const char *how, char *self)
{
	char *const argv[] = {self, NULL}, *const none[] = {NULL};

	if (!strcmp(how, "_exit"))
		_exit(0);
	if (!strcmp(how, "_Exit"))
		_Exit(0);
	if (!strcmp(how, "quick_exit"))
		quick_exit(0);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "SIGTERM"))
		raise(SIGTERM);
	if (!strcmp(how, "SIGSEGV"))
		*(volatile int *)NULL = 0;
	if (!strcmp(how, "execve"))
		execve(self, argv, none);
	if (!strcmp(how, "execvp"))
		execvp(self, argv);
	if (!strcmp(how, "execl"))
		execl(self, self, (char *)NULL);
	if (!strcmp(how, "failed execve"))
		MUST(execl("/nowhere/at/all", "nothing", (char *)NULL) < 0 && errno == ENOENT);
}

int main(int argc, char **argv)
{
	struct ibv_mr other = {.rkey = 1};
	struct end nowhere;
	struct pair p;

	if (argc < 2)
		return 0;
	pair_open(&p, (struct want){0});
	nowhere = (struct end){.memory = p.b.memory, .mr = &other};
	if (strcmp(argv[1], "failed requests"))
		MUST(ibv_create_cq(p.context, 4, NULL, NULL, 0));
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 8), &nowhere, IBV_SEND_SIGNALED);
	MUST(await(&p.a).status == IBV_WC_REM_ACCESS_ERR);
	if (!strcmp(argv[1], "failed requests"))
		pair_close(&p);
	end_of(argv[1], argv[0]);
	return 0;
}
