/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/proc_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

char proc_state(pid_t process, pid_t thread)
{
	char path[64], text[256], *name;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)process, (int)thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[max_of(n, (ssize_t)0)] = '\0';
	name = strrchr(text, ')'); /* the name may contain anything; behind it stands the state */
	return name && name[1] == ' ' ? name[2] : 0;
}
