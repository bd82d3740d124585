/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/run/ending.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "tools/command.h"

static int fd = -1;
static sigset_t before;

void ending_begin(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction now;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (!sigaction(signals[i], NULL, &now) && now.sa_handler != SIG_IGN)
			sigaddset(&set, signals[i]);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd >= 0)
		sigprocmask(SIG_BLOCK, &set, &before);
}

void ending_forget(void)
{
	if (fd >= 0)
		sigprocmask(SIG_SETMASK, &before, NULL);
}

int ending_fd(void)
{
	return fd;
}

int ending_signal(void)
{
	static int asked;
	struct signalfd_siginfo s;

	if (!asked && fd >= 0 && read(fd, &s, sizeof(s)) == sizeof(s))
		asked = (int)s.ssi_signo;
	return asked;
}

int ending_wait(pid_t child)
{
	int end = (int)syscall(SYS_pidfd_open, child, 0), status;
	struct pollfd fds[] = {{.fd = end, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

	if (end >= 0 && !ending_signal())
		poll(fds, ARRAY_SIZE(fds), -1);
	fd_close(&end);
	if (ending_signal())
		kill(child, SIGTERM);
	waitpid(child, &status, 0);
	return status;
}

int ending_run_self(const char *const *argv, bool quiet)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		ending_forget();
		if (quiet)
			dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		execv("/proc/self/exe", (char **)argv);
		_exit(EXIT_NOT_FOUND);
	}
	status = pid > 0 ? ending_wait(pid) : 1 << 8;
	if (ending_signal())
		return 128 + ending_signal();
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}
