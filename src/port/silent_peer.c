/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/silent_peer.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc_state.h"
#include "base/qpn.h"
#include "host/slot.h"
#include "port/down.h"
#include "port/gsi.h"

/* Inode of the socket by which a process has the slot; 0: not found. */
static uint64_t slot_inode(uint16_t slot)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], name[64], found[64];
	uint64_t inode = 0, next;

	snprintf(name, sizeof(name), "@uroce/slot/%u", slot);
	while (f && !inode && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %" SCNu64 " %63s", &next, found) == 2 && !strcmp(found, name))
			inode = next;
	if (f)
		fclose(f);
	return inode;
}

static bool process_has(pid_t pid, uint64_t inode)
{
	char path[320], target[64], wanted[64];
	bool has = false;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	snprintf(wanted, sizeof(wanted), "socket:[%" PRIu64 "]", inode);
	fds = opendir(path);
	for (struct dirent *e; fds && !has && (e = readdir(fds));) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		has = !strcmp(target, wanted);
	}
	if (fds)
		closedir(fds);
	return has;
}

/* The process that has the slot, if it is stopped; 0: it is not, or cannot be seen. */
static pid_t stopped_process(uint16_t slot)
{
	uint64_t inode = slot_inode(slot);
	DIR *processes = inode ? opendir("/proc") : NULL;
	pid_t found = 0;

	for (struct dirent *e; processes && !found && (e = readdir(processes));) {
		pid_t pid = (pid_t)atoi(e->d_name);

		if (pid > 0 && process_is_stopped(pid) && process_has(pid, inode))
			found = pid;
	}
	if (processes)
		closedir(processes);
	return found;
}

bool silent_peer_tell(const struct qp *qp, char *text, size_t room)
{
	uint16_t slot = qpn_slot(qp->attr.dest_qp_num);
	pid_t stopped;

	if (path_is_down(&qp->path)) {
		snprintf(text, room, "the port of %s is down (uroce link)",
			 address_is_down(&qp->path.sgid) ? "this end" : "the peer");
		return true;
	}
	if (!gsi_is_here(&qp->path.sgid, &qp->path.dgid))
		return false;
	stopped = stopped_process(slot);
	if (stopped)
		snprintf(text, room, "its process is stopped: kill -CONT %d", (int)stopped);
	else if (slot_is_alive(slot))
		snprintf(text, room,
			 "its process runs on this host: it has no such queue pair, or that one has failed "
			 "or is not in RTR (uroce stat)");
	else
		snprintf(text, room,
			 "its process has ended, or the number is wrong: none of this user on this host "
			 "has such a queue pair");
	return true;
}
