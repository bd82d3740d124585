/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that change and return the working directory. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sysfs/cwd.h"
#include "sysfs/face.h"

/* Variants for programs built with _FORTIFY_SOURCE. */
char *__getcwd_chk(char *buffer, size_t size, size_t room);

PUBLIC int chdir(const char *path)
{
	struct face f;
	enum finding found = face_find(&f, AT_FDCWD, path, true);

	if (!found)
		return cwd_left(NEXT(chdir)(f.path));
	if (found == FACE_ERROR)
		return -1;
	free(f.node.text);
	if (f.node.kind == TREE_DIRECTORY)
		return cwd_set(f.path);
	errno = ENOTDIR;
	return -1;
}

PUBLIC int fchdir(int fd)
{
	char path[PATH_MAX];

	return face_directory(fd, path) ? cwd_set(path) : cwd_left(NEXT(fchdir)(fd));
}

PUBLIC char *getcwd(char *buffer, size_t size)
{
	const char *ours = cwd_of_ours();

	if (!ours)
		return NEXT(getcwd)(buffer, size);
	if (!buffer && !size)
		return strdup(ours);
	if (size <= strlen(ours)) {
		errno = buffer && !size ? EINVAL : ERANGE;
		return NULL;
	}
	if (!buffer)
		buffer = malloc(size);
	return buffer ? strcpy(buffer, ours) : NULL;
}

PUBLIC char *__getcwd_chk(char *buffer, size_t size, size_t room)
{
	if (size > room)
		abort();
	return getcwd(buffer, size);
}

PUBLIC char *get_current_dir_name(void)
{
	return cwd_of_ours() ? getcwd(NULL, 0) : NEXT(get_current_dir_name)();
}
