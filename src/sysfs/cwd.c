/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/cwd.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sysfs/next.h"

#define VARIABLE "UROCE_SYSFS_CWD="

/* Directories that the program has been in, each once. They are few, and never freed, as another thread may be
 * reading. */
static struct known {
	struct known *next;
	char path[];
} * _Atomic all;

static _Atomic(const char *) current; /* NULL: the kernel's directory */

const char *cwd_of_ours(void)
{
	return atomic_load_explicit(&current, memory_order_acquire); /* pairs with cwd_set() */
}

/* The stored copy of a path. NULL with ENOMEM. */
static const char *keep(const char *path)
{
	struct known *first = atomic_load_explicit(&all, memory_order_acquire), *k; /* pairs with the release below */

	for (k = first; k; k = k->next)
		if (!strcmp(k->path, path))
			return k->path;
	k = malloc(sizeof(*k) + strlen(path) + 1);
	if (!k)
		return NULL;
	strcpy(k->path, path);
	k->next = first;
	/* two threads at the same time may both add it */
	while (!atomic_compare_exchange_weak_explicit(&all, &k->next, k, memory_order_release, memory_order_relaxed))
		;
	return k->path;
}

/* Moves the kernel's directory to the nearest existing one above. */
static void go_near(const char *path)
{
	char above[PATH_MAX];

	strcpy(above, path);
	while (*above && NEXT(chdir)(above))
		*strrchr(above, '/') = 0;
	if (!*above)
		(void)!NEXT(chdir)("/");
}

int cwd_set(const char *path)
{
	const char *kept = keep(path);

	if (!kept)
		return -1;
	go_near(path);
	atomic_store_explicit(&current, kept, memory_order_release); /* pairs with cwd_of_ours() */
	return 0;
}

int cwd_left(int result)
{
	if (!result)
		atomic_store_explicit(&current, NULL, memory_order_relaxed);
	return result;
}

/* ---- for the next program ---- */

/* Shells call execve(); the C library calls the other variants internally. */
PUBLIC int execve(const char *file, char *const argv[], char *const environment[])
{
	char variable[sizeof(VARIABLE) + PATH_MAX];
	const char *ours = cwd_of_ours();
	size_t n = 0;
	char **more;
	int result;

	if (!ours || !environment)
		return NEXT(execve)(file, argv, environment);
	while (environment[n])
		n++;
	more = malloc((n + 2) * sizeof(*more));
	if (!more)
		return -1;
	snprintf(variable, sizeof(variable), VARIABLE "%s", ours);
	*more = variable;
	memcpy(more + 1, environment, (n + 1) * sizeof(*more));
	result = NEXT(execve)(file, argv, more);
	free(more);
	return result;
}

static __attribute__((constructor)) void cwd_inherit(void)
{
	char name[] = VARIABLE;
	const char *path;

	name[sizeof(name) - 2] = 0; /* without the equals sign */
	path = getenv(name);
	if (path && *path == '/' && strlen(path) < PATH_MAX)
		atomic_store_explicit(&current, keep(path), memory_order_release); /* pairs with cwd_of_ours() */
	unsetenv(name);
}
