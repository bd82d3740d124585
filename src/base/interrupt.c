/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/copy_process.h"
#include "base/tuned.h"

static const char *explain;	   /* the command; NULL: none */
static char own_pid[16];	   /* as its argument */
static _Atomic pid_t interrupt_of; /* process whose first SIGINT has not come; 0: none */
static _Alignas(64) char stack[2][EXPLAIN_STACK];

static void __attribute__((noreturn)) leave(void)
{
	for (;;)
		syscall(SYS_exit_group, 0);
}

static int become_explain(void *arg)
{
	char *argv[] = {"uroce", "explain", "-p", own_pid, NULL};

	(void)arg;
	alarm(EXPLAIN_TIME);	   /* outlives execve(2) */
	if (isatty(STDERR_FILENO)) /* which shows ^C */
		dprintf(STDERR_FILENO, "\n");
	dup2(STDERR_FILENO, STDOUT_FILENO);
	syscall(SYS_execve, explain, argv, environ);
	leave();
}

static int explain_then_interrupt(void *arg)
{
	const pid_t *owner = arg;
	sigset_t none;
	pid_t asked;

	signal(SIGINT, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	asked = copy_process(become_explain, stack[1] + EXPLAIN_STACK, NULL);
	while (asked > 0 && syscall(SYS_wait4, asked, NULL, __WALL, NULL) < 0)
		;
	if (getppid() == *owner)
		kill(*owner, SIGINT);
	leave();
}

bool interrupt_defer(void)
{
	static pid_t owner;
	pid_t self = getpid();

	owner = self;
	return explain && atomic_compare_exchange_strong(&interrupt_of, &self, 0) &&
	       copy_process(explain_then_interrupt, stack[0] + EXPLAIN_STACK, &owner) > 0;
}

static void on_interrupt(int number, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	if (interrupt_defer())
		return;
	signal(number, SIG_DFL);
	raise(number);
}

static void interrupt_begin(void)
{
	struct sigaction ours = {.sa_sigaction = on_interrupt, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART}, now;

	explain = config_string(CONFIG_EXPLAIN);
	if (!explain)
		return;
	snprintf(own_pid, sizeof(own_pid), "%d", (int)getpid());
	atomic_store(&interrupt_of, getpid());
	if (!sigaction(SIGINT, NULL, &now) && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
		sigaction(SIGINT, &ours, NULL);
}

void interrupt_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, interrupt_begin);
}
