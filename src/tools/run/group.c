/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/run/group.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/control_call.h"
#include "base/stat_read.h"
#include "tools/names.h"

/* True if one of the sockets that a table of /proc lists as listening is the process's. */
static bool listens_in(pid_t pid, const char *table)
{
	char path[300], line[512], wanted[64], link[64];
	DIR *fds;
	FILE *file;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, table);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		unsigned long inode;
		unsigned state;

		if (sscanf(line, " %*d: %*s %*s %x %*s %*s %*s %*s %*s %lu", &state, &inode) != 2 ||
		    state != 0x0a) /* TCP_LISTEN */
			continue;
		snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
		snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
		fds = opendir(path);
		for (struct dirent *e; fds && !found && (e = readdir(fds));) {
			ssize_t n = readlinkat(dirfd(fds), e->d_name, link, sizeof(link) - 1);

			link[max_of(n, 0)] = 0;
			found = !strcmp(link, wanted);
		}
		if (fds)
			closedir(fds);
	}
	if (file)
		fclose(file);
	return found;
}

static bool has_listening_id(pid_t pid)
{
	struct stat_process p = {0};
	const struct stat_id *id;
	char answer[256];
	bool found = false;
	int given, fd = control_call(pid, "stat", answer, sizeof(answer), &given);
	size_t n;

	if (fd < 0)
		return false;
	if (given >= 0 && !stat_read(given, &p)) {
		id = stat_ids(&p, &n);
		for (size_t i = 0; i < n; i++)
			found |= !strcmp(id_state_name(id[i].state), "LISTENING");
	}
	stat_free(&p);
	if (given >= 0)
		close(given);
	close(fd);
	return found;
}

static bool process_listens(pid_t pid)
{
	return listens_in(pid, "tcp") || listens_in(pid, "tcp6") || has_listening_id(pid);
}

size_t group_processes(pid_t group, pid_t *pid, size_t most)
{
	DIR *all = opendir("/proc");
	size_t n = 0;

	for (struct dirent *e; all && n < most && (e = readdir(all));) {
		pid[n] = (pid_t)strtol(e->d_name, NULL, 10);
		n += pid[n] > 0 && getpgid(pid[n]) == group;
	}
	if (all)
		closedir(all);
	return n;
}

bool group_listens(pid_t group)
{
	pid_t pid[64];
	size_t n = group_processes(group, pid, ARRAY_SIZE(pid));

	while (n && !process_listens(pid[n - 1]))
		n--;
	return n;
}
