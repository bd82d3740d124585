/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/capture/collect_program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/capture/collect.h"
#include "tools/command.h"
#include "tools/program.h"

int collect_program(const struct command *command, const struct collect_options *o, const char *path, char **argv)
{
	struct collector *c;
	sigset_t old;
	pid_t child;
	int status;

	sigprocmask(SIG_BLOCK, NULL, &old);
	c = collect_open(o, command->name);
	if (!c || setenv("UROCE_PCAP", collect_name(c), 1))
		return EXIT_FAILURE;
	child = fork();
	if (child < 0)
		return complain(command, "fork: %s", strerror(errno));
	if (!child) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		if (!strcmp(o->file, "-")) /* stdout is for packets only */
			dup2(STDERR_FILENO, STDOUT_FILENO);
		_exit(program_execute(command, path, argv));
	}
	status = collect_run(c, child);
	collect_close(c);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
