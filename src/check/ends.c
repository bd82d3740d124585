/* SPDX-License-Identifier: BSD-2-Clause */
/* malloc(3) may be locked in the copy, so it has a time limit. */
#include "check/ends.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/copy_process.h"
#include "base/interrupt.h"
#include "base/lock.h"
#include "check/finding.h"
#include "check/tuned.h"

static int (*ends_finish)(void);
static _Atomic pid_t ends_of; /* process that reports; 0: none */
static _Alignas(64) char copy_stack[COPY_STACK];

/* True once, in the process that is checked; not in a child of vfork(2). */
static bool takes_end(void)
{
	pid_t self = getpid();

	return self == atomic_load(&ends_of) && atomic_compare_exchange_strong(&ends_of, &self, 0);
}

static void __attribute__((noreturn)) leave(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

static int report_in_copy(void *arg)
{
	sigset_t none;

	(void)arg;
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	alarm(COPY_TIME); /* before all else: under ThreadSanitizer even lock_in_child() may wait for ever */
	lock_in_child();
	leave(ends_finish());
}

static pid_t copy_here(int (*run)(void *), void *arg)
{
	return copy_process(run, copy_stack + sizeof(copy_stack), arg);
}

/* The exit status of the copy; 0: it had none. */
static int await_copy(pid_t copy)
{
	int status = 0;

	while (copy > 0 && syscall(SYS_wait4, copy, &status, __WALL, NULL) < 0)
		;
	return copy > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int check_exits(int status)
{
	int found = takes_end() ? await_copy(copy_here(report_in_copy, NULL)) : 0;

	return found ? found : status;
}

/* ---- execve(2) ---- */

/* The next program may want the ports and files that this one had. */
static void close_all_but(int end)
{
	int kept[1 + FINDING_FDS] = {end};

	finding_descriptors(kept + 1);
	for (unsigned from = STDERR_FILENO + 1, next; from; from = next + 1) {
		next = ~0u;
		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			if (kept[i] >= (int)from)
				next = min_of(next, (unsigned)kept[i]);
		if (next > from)
			syscall(SYS_close_range, from, next - (next != ~0u), 0);
	}
}

/* Reports when the other end of the pipe has closed, by execve(2), without a word. */
static int report_when_left(void *arg)
{
	const int *ends = arg;
	char word;

	close_all_but(ends[0]);
	if (read(ends[0], &word, 1) == 0)
		report_in_copy(NULL);
	leave(0);
}

/* The copy's parent ends, so that the next program has no child that it does not know. */
static int copy_again(void *arg)
{
	copy_here(report_when_left, arg);
	leave(0);
}

int check_leaves(void)
{
	static int ends[2];

	if (!takes_end())
		return -1;
	if (pipe2(ends, O_CLOEXEC))
		return -1;
	await_copy(copy_here(copy_again, ends));
	close(ends[0]);
	return ends[1];
}

void check_stays(int leaving)
{
	if (leaving < 0)
		return;
	while (write(leaving, "", 1) < 0)
		;
	close(leaving);
	atomic_store(&ends_of, getpid());
}

/* ---- signals ---- */

static const int deadly[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,	 SIGABRT, SIGBUS,  SIGFPE,  SIGUSR1,
			     SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGXFSZ, SIGSYS};

/* A fault happens again when this returns, an abort goes on; what was sent comes now. */
static void on_end(int number, siginfo_t *info, void *context)
{
	struct sigaction fallback = {.sa_handler = SIG_DFL};

	if (number == SIGINT && interrupt_defer(context))
		return;
	if (takes_end())
		await_copy(copy_here(report_in_copy, NULL));
	sigaction(number, &fallback, NULL);
	if (info->si_code <= 0)
		raise(number);
}

void ends_start(int (*finish)(void))
{
	struct sigaction ours = {.sa_sigaction = on_end, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART}, now;

	ends_finish = finish;
	atomic_store(&ends_of, getpid());
	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++)
		if (!sigaction(deadly[i], NULL, &now) && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
			sigaction(deadly[i], &ours, NULL);
}

void ends_stop(void)
{
	atomic_store(&ends_of, 0);
}
