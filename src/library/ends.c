/* SPDX-License-Identifier: BSD-2-Clause */
/* _exit(2) and the functions of execve(2), in front of the C library's: `uroce check` reports before the process ends
 * or becomes another program. exec*() call execve() inside the C library, so each is here. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hooks.h"
#include "check/ends.h"
#include "device/front.h"

static struct {
	int (*execve)(const char *path, char *const argv[], char *const environment[]);
	int (*execvp)(const char *file, char *const argv[]);
	int (*execvpe)(const char *file, char *const argv[], char *const environment[]);
	int (*fexecve)(int fd, char *const argv[], char *const environment[]);
} following;

/* At the start, as dlsym(3) is not for children of vfork(2) nor for handlers. */
__attribute__((constructor(101))) static void find_following(void)
{
	*(void **)&following.execve = dlsym(RTLD_NEXT, "execve");
	*(void **)&following.execvp = dlsym(RTLD_NEXT, "execvp");
	*(void **)&following.execvpe = dlsym(RTLD_NEXT, "execvpe");
	*(void **)&following.fexecve = dlsym(RTLD_NEXT, "fexecve");
}

/* Returns the result of a call that returns only if it fails. */
#define LEAVING(call)                                                       \
	({                                                                  \
		int leaving = hook_is_on(HOOK_CHECK) ? check_leaves() : -1; \
		int result;                                                 \
                                                                            \
		if (!following.execve) /* another library's constructor */  \
			find_following();                                   \
		result = (call);                                            \
		int saved = errno;                                          \
                                                                            \
		check_stays(leaving);                                       \
		errno = saved;                                              \
		result;                                                     \
	})

PUBLIC int execve(const char *path, char *const argv[], char *const environment[])
{
	return LEAVING(following.execve(path, argv, environment));
}

PUBLIC int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

PUBLIC int execvp(const char *file, char *const argv[])
{
	return LEAVING(following.execvp(file, argv));
}

PUBLIC int execvpe(const char *file, char *const argv[], char *const environment[])
{
	return LEAVING(following.execvpe(file, argv, environment));
}

PUBLIC int fexecve(int fd, char *const argv[], char *const environment[])
{
	return LEAVING(following.fexecve(fd, argv, environment));
}

static int count_arguments(va_list more)
{
	int n = 1;

	while (va_arg(more, const char *))
		n++;
	return n;
}

/* argv of a call with the arguments one by one, and the environment behind them if `rest` is not NULL. On the stack: a
 * child of vfork(2) may call. */
#define WITH_LIST(first, rest, call)                                \
	({                                                          \
		va_list list;                                       \
		int count;                                          \
                                                                    \
		va_start(list, first);                              \
		count = count_arguments(list);                      \
		va_end(list);                                       \
		const char *argv[count + 1];                        \
		char *const **environment = (rest);                 \
                                                                    \
		va_start(list, first);                              \
		argv[0] = first;                                    \
		for (int i = 1; i <= count; i++)                    \
			argv[i] = va_arg(list, const char *);       \
		if (environment)                                    \
			*environment = va_arg(list, char *const *); \
		va_end(list);                                       \
		(call);                                             \
	})

PUBLIC int execl(const char *path, const char *first, ...)
{
	return WITH_LIST(first, NULL, execve(path, (char *const *)argv, environ));
}

PUBLIC int execlp(const char *file, const char *first, ...)
{
	return WITH_LIST(first, NULL, execvp(file, (char *const *)argv));
}

PUBLIC int execle(const char *path, const char *first, ...)
{
	char *const *variables = NULL;

	return WITH_LIST(first, &variables, execve(path, (char *const *)argv, variables));
}

PUBLIC void _exit(int status)
{
	void (*finish)(void) = atomic_load_explicit(&hook_exit, memory_order_acquire); /* pairs with its setter */

	if (finish)
		finish();
	if (hook_is_on(HOOK_CHECK))
		status = check_exits(status);
	for (;;)
		syscall(SYS_exit_group, status);
}

PUBLIC void _Exit(int status)
{
	_exit(status);
}
