/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/memfd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/same_user.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3; may be mandatory there */
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10 /* Linux 5.1 */
#endif
#define FIXED (F_SEAL_SHRINK | F_SEAL_GROW)

int memfd_new(const char *name, unsigned flags)
{
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

static bool may_be_as_long(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= bytes;
}

int memfd_fill(int fd, const void *from, uint64_t bytes)
{
	ssize_t n;

	if (!may_be_as_long(bytes))
		return -EFBIG;
	n = pwrite(fd, from, bytes, 0);
	return n < 0 ? -errno : n == (ssize_t)bytes ? 0 : -ENOSPC;
}

int memfd_of_size(const char *name, unsigned flags, uint64_t bytes)
{
	int fd, err;

	if (!may_be_as_long(bytes))
		return -EFBIG;
	fd = high_fd(memfd_new(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)bytes) &&
	    !fcntl(fd, F_ADD_SEALS, FIXED | (flags & MFD_ALLOW_SEALING ? 0 : F_SEAL_SEAL)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int memfd_end_writes(int fd)
{
	if (!fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		return 0;
	return errno == EINVAL && !fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) ? 0 : -errno; /* before Linux 5.1 */
}

bool memfd_is_fixed(int fd, uint64_t bytes)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & FIXED) == FIXED && !fstat(fd, &st) && (uint64_t)st.st_size == bytes &&
	       !memfd_is_huge(fd);
}

bool memfd_is_huge(int fd)
{
	struct statfs st;

	return !fstatfs(fd, &st) && st.f_type == HUGETLBFS_MAGIC;
}

bool memfd_is_ours(int fd, uint64_t bytes)
{
	struct stat st;

	return same_user_file(fd, &st) && memfd_is_fixed(fd, bytes);
}

int memfd_of_process(pid_t pid, const char *name)
{
	char path[300], want[64], target[64];
	struct dirent *e;
	int memory = -1;
	DIR *dir;

	snprintf(want, sizeof(want), "/memfd:%s ", name); /* the link ends in " (deleted)" */
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = pid > 0 ? opendir(path) : NULL;
	while (memory < 0 && dir && (e = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, e->d_name);
		n = readlink(path, target, sizeof(target));
		if (n >= (ssize_t)strlen(want) && !memcmp(target, want, strlen(want)))
			memory = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* any file with that name */
	}
	if (dir)
		closedir(dir);
	return memory;
}

static uint64_t netns_of(const char *pid)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%s/ns/net", pid);
	return stat(path, &st) ? 0 : st.st_ino;
}

int memfd_of_any(const char *name, uint64_t bytes)
{
	DIR *list = opendir("/proc");
	uint64_t here = netns_of("self");
	struct dirent *e;
	int memory = -1;

	while (list && here && memory < 0 && (e = readdir(list))) {
		pid_t pid = atoi(e->d_name);

		if (pid > 0 && pid != getpid() && netns_of(e->d_name) == here) /* 0 for processes of other users */
			memory = memfd_of_process(pid, name);
		if (memory >= 0 && !memfd_is_ours(memory, bytes)) {
			close(memory);
			memory = -1;
		}
	}
	if (list)
		closedir(list);
	return memory;
}
