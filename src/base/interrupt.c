/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/config.h"
#include "base/copy_process.h"
#include "base/tuned.h"
#include "base/uncancelled.h"

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

/* True if a system call was interrupted and returns EINTR, if the handler returns. Such a call is one that waits, so
 * nobody waits for the thread: locks are not held meanwhile. */
static bool returns_eintr(const void *context)
{
#if defined(__x86_64__)
	const ucontext_t *u = context;
	const uint8_t *next = (const uint8_t *)u->uc_mcontext.gregs[REG_RIP];

	return u->uc_mcontext.gregs[REG_RAX] == -EINTR && next[-2] == 0x0f && next[-1] == 0x05; /* syscall */
#elif defined(__aarch64__)
	const ucontext_t *u = context;

	return (int64_t)u->uc_mcontext.regs[0] == -EINTR &&
	       ((const uint32_t *)(uintptr_t)u->uc_mcontext.pc)[-1] == 0xd4000001; /* svc #0 */
#else
	(void)context;
	return false;
#endif
}

/* Waits for the second SIGINT, whose handler ends the process. */
static void stay(void)
{
	sigset_t others;

	sigfillset(&others);
	sigdelset(&others, SIGINT);
	for (;;) {
		sigprocmask(SIG_SETMASK, &others, NULL); /* here ThreadSanitizer calls handlers, not in system calls */
		uncancelled_ppoll(NULL, 0, NULL, &others);
	}
}

bool interrupt_defer(const void *context)
{
	static pid_t owner;
	pid_t self = getpid();

	owner = self;
	if (!explain || !atomic_compare_exchange_strong(&interrupt_of, &self, 0) ||
	    copy_process(explain_then_interrupt, stack[0] + EXPLAIN_STACK, &owner) <= 0)
		return false;
	if (returns_eintr(context))
		stay();
	return true;
}

static void on_interrupt(int number, siginfo_t *info, void *context)
{
	(void)info;
	if (interrupt_defer(context))
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
