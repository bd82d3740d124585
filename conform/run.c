/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs groups, each in a process of its own, with another for its far end. A check that ends its process or that hangs
 * is wrong; the rest of its group continues in a new process. */
#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conform.h"
#include "end.h"

/* A group that is to be run, or runs. In memory that its process shares with the one that watches it. */
struct task {
	const struct group *group;
	struct outcome *outcomes;
	pid_t pid;	     /* 0: does not run */
	_Atomic unsigned at; /* row that runs, or will run next */
	_Atomic uint64_t since;
};

static sigjmp_buf ended;
static struct outcome *outcome;

uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void note(enum verdict verdict, const char *format, va_list arguments)
{
	outcome->verdict = verdict;
	vsnprintf(outcome->seen, sizeof(outcome->seen), format, arguments);
}

#define ENDING(name, verdict)                     \
	void name(const char *format, ...)        \
	{                                         \
		va_list arguments;                \
                                                  \
		va_start(arguments, format);      \
		note(verdict, format, arguments); \
		va_end(arguments);                \
		siglongjmp(ended, 1);             \
	}
ENDING(wrong, WRONG)
ENDING(unusual, UNUSUAL)
ENDING(lacking, LACKING)

void expect(const char *what, long seen, long expected)
{
	if (seen != expected)
		wrong("%s is %ld, expected %ld", what, seen, expected);
}

const char *errno_name(int error)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {
#define NAME(error) {error, #error}
		{0, "success"},	 NAME(EINVAL), NAME(ENOMEM),	    NAME(EOPNOTSUPP), NAME(ENOSYS),
		NAME(EBUSY),	 NAME(EFAULT), NAME(EAGAIN),	    NAME(EPERM),      NAME(EACCES),
		NAME(ENODEV),	 NAME(ENXIO),  NAME(EADDRNOTAVAIL), NAME(EADDRINUSE), NAME(ECONNREFUSED),
		NAME(ETIMEDOUT), NAME(ENOSPC), NAME(EIO),	    NAME(ENOENT),
#undef NAME
	};

	for (size_t i = 0; i < COUNT(names); i++)
		if (names[i].error == error)
			return names[i].name;
	return strerror(error);
}

void expect_errno(const char *call, int seen, int expected)
{
	if (seen != expected)
		wrong("%s: %s, expected %s", call, errno_name(seen), errno_name(expected));
}

/* Its socket, or -2. */
static int connect_server(void)
{
	struct addrinfo *list = NULL, hints = {.ai_socktype = SOCK_STREAM};
	int fd = -2;

	if (getaddrinfo(options.server, "18516", &hints, &list))
		return -2;
	for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
		if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen)) {
			close(fd);
			fd = -2;
		}
	}
	freeaddrinfo(list);
	return fd;
}

/* Starts the process of the far end. Returns its socket; -1: the far end is in this process; -2: failure. */
static int start_far(void)
{
	int pair[2];

	if (options.server)
		return connect_server();
	if (options.processes == 1)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return -2;
	switch (fork()) {
	case -1:
		return -2;
	case 0:
		close(pair[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		end_serve(pair[1]);
		_exit(0);
	default:
		close(pair[1]);
		return pair[0];
	}
}

static void run_check(const struct group *group, unsigned i)
{
	uint64_t start = now();

	if (!sigsetjmp(ended, 1)) {
		if (group->rows)
			group->rows[i].check();
		else
			group->check(i);
		outcome->verdict = RIGHT;
	}
	outcome->ms = (unsigned)((now() - start) / 1000000);
}

enum { KILLED = 4 }; /* exit status of the process of a group: a check has killed the far end; another begins */

/* The process of a group. */
static _Noreturn void run_group(struct task *task)
{
	static struct outcome none;
	struct rule rule;
	const char *volatile why;
	int fd;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	outcome = &none;
	if (sigsetjmp(ended, 1))
		_exit(2);
	fd = start_far();
	why = fd < -1 ? "there is no far end" : end_open(near, -1) ?: end_open(far, fd);
	for (; task->at < task->group->count; task->at++) {
		outcome = &task->outcomes[task->at];
		rule_of(task->group, task->at, &rule);
		if (!is_wanted(task->group, &rule))
			continue;
		task->since = now();
		if (why) {
			outcome->verdict = WRONG;
			snprintf(outcome->seen, sizeof(outcome->seen), "the device does not open: %s", why);
			continue;
		}
		run_check(task->group, task->at);
		if (end_is_dead(far)) {
			task->at++;
			_exit(KILLED);
		}
		if (sigsetjmp(ended, 1)) /* the far end has ended */
			_exit(3);
		end_reset(near);
		end_reset(far);
	}
	_exit(0);
}

static void start(struct task *task)
{
	pid_t pid;

	task->since = now();
	fflush(stdout);
	pid = fork();
	if (!pid)
		run_group(task);
	if (pid < 0) {
		perror("uroce-conform: fork");
		exit(2);
	}
	setpgid(pid, pid);
	task->pid = pid;
}

/* The check that ran when its process ended is wrong; the rest goes on. */
static void resume(struct task *task, const char *how)
{
	struct outcome *o = &task->outcomes[task->at];

	kill(-task->pid, SIGKILL);
	task->pid = 0;
	if (task->at >= task->group->count)
		return;
	if (how) {
		if (o->verdict != WRONG)
			snprintf(o->seen, sizeof(o->seen), "%s%s", how, o->verdict ? ", when the check had ended" : "");
		o->verdict = WRONG;
		task->at++;
	}
	start(task);
}

static void watch(struct task *task)
{
	uint64_t since = task->since; /* read before the time, as a check may begin meanwhile */
	char how[64];
	int status;

	if (!task->pid)
		return;
	if (waitpid(task->pid, &status, WNOHANG) == task->pid) {
		if (WIFSIGNALED(status))
			snprintf(how, sizeof(how), "the process was ended by signal %d (%s)", WTERMSIG(status),
				 strsignal(WTERMSIG(status)));
		else
			snprintf(how, sizeof(how), "the process ended with status %d", WEXITSTATUS(status));
		if (WIFEXITED(status) && !WEXITSTATUS(status))
			task->pid = 0;
		else
			resume(task, WIFEXITED(status) && WEXITSTATUS(status) == KILLED ? NULL : how);
	} else if (now() - since > options.seconds * 1000000000ull) {
		snprintf(how, sizeof(how), "it hangs: no end within %u s", options.seconds);
		kill(-task->pid, SIGKILL);
		waitpid(task->pid, NULL, 0);
		resume(task, how);
	}
}

static bool is_any_wanted(const struct group *group)
{
	struct rule rule;

	for (unsigned i = 0; i < group->count; i++) {
		rule_of(group, i, &rule);
		if (is_wanted(group, &rule))
			return true;
	}
	return false;
}

static void *shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("uroce-conform: mmap");
		exit(2);
	}
	return memory;
}

void run_all(struct outcome **outcomes)
{
	struct task *tasks = shared(group_count * sizeof(*tasks));
	unsigned next = 0, running;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	do {
		running = 0;
		for (unsigned g = 0; g < next; g++) {
			watch(&tasks[g]);
			running += tasks[g].pid != 0;
		}
		for (; next < group_count && running < options.jobs; next++) {
			tasks[next].group = groups[next];
			tasks[next].outcomes = outcomes[next] =
				shared((groups[next]->count + 1) * sizeof(struct outcome));
			if (!is_any_wanted(groups[next]))
				continue;
			start(&tasks[next]);
			running++;
		}
		if (running)
			sigtimedwait(&child, NULL, &(struct timespec){.tv_nsec = 50000000});
	} while (running || next < group_count);
}
