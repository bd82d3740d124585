/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/same_user.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

static uid_t overflow_uid(void)
{
	static _Atomic uint64_t known; /* the result plus 1. Relaxed: all threads read the same */
	uint64_t uid = atomic_load_explicit(&known, memory_order_relaxed);
	unsigned number = 65534;
	FILE *f;

	if (uid)
		return (uid_t)(uid - 1);
	f = fopen("/proc/sys/kernel/overflowuid", "rce");
	if (f && fscanf(f, "%u", &number) != 1)
		number = 65534;
	if (f)
		fclose(f);
	atomic_store_explicit(&known, number + UINT64_C(1), memory_order_relaxed);
	return number;
}

/* True if all users are mapped, as outside of all user namespaces. Read each time: the map may be written late, and a
 * process may move. */
static bool all_users_are_mapped(void)
{
	FILE *f = fopen("/proc/self/uid_map", "rce");
	uint64_t count, sum = 0;

	while (f && fscanf(f, "%*u %*u %" SCNu64, &count) == 1)
		sum += count;
	if (f)
		fclose(f);
	return sum >= UINT32_MAX; /* (uid_t)-1 is no user */
}

bool user_is_unmapped(uid_t uid)
{
	return uid == overflow_uid() && !all_users_are_mapped();
}

/* True if the process is in our user namespace: the link is readable only for processes that this one could trace, of
 * other users for root alone. */
static bool is_of_our_namespace(pid_t pid)
{
	struct stat ours, theirs;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return pid > 0 && !stat("/proc/self/ns/user", &ours) && !stat(path, &theirs) && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev;
}

bool same_user_sender(const struct ucred *sender)
{
	return sender->uid == geteuid() && (!user_is_unmapped(sender->uid) || is_of_our_namespace(sender->pid));
}

/* True if the process that has connected, or listened, still lives, so that its pid is its own, and is in our user
 * namespace. */
static bool peer_is_of_our_namespace(int connection, pid_t pid)
{
	struct pollfd process = {.events = POLLIN}; /* readable when the process has ended */
	socklen_t size = sizeof(process.fd);
	bool same;

	if (getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &process.fd, &size))
		return false;
	same = is_of_our_namespace(pid) && poll(&process, 1, 0) == 0;
	close(process.fd);
	return same;
}

bool same_user_peer(int connection, struct ucred *peer)
{
	struct ucred who = {.uid = (uid_t)-1};
	socklen_t size = sizeof(who);

	getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size);
	if (peer)
		*peer = who;
	return who.uid == geteuid() && (!user_is_unmapped(who.uid) || peer_is_of_our_namespace(connection, who.pid));
}

bool same_user_file(int fd, struct stat *st)
{
	int flags;

	if (fstat(fd, st) || st->st_uid != geteuid())
		return false;
	if (!user_is_unmapped(st->st_uid))
		return true;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NOATIME))
		return false;
	fcntl(fd, F_SETFL, flags);
	return true;
}
