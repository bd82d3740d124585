/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/outside.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/tuned.h"
#include "check/tuned.h"

/* The kernel's times are those of its last tick. */
static uint64_t tick(void)
{
	struct timespec t = {0};

	clock_getres(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_nsec;
}

static uint64_t socket_heard(int fd)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		return UINT64_MAX;
	if (info.tcpi_state == TCP_LISTEN) /* who is accepted has another socket */
		return 1;
	/* the end of a stream has no time */
	return info.tcpi_state == TCP_ESTABLISHED ? clock_now() - info.tcpi_last_data_recv * MSEC : UINT64_MAX;
}

/* Linux 6.15 and later keep no times of pipes. */
static uint64_t pipe_heard(int fd)
{
	return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY ? 0 : UINT64_MAX;
}

static uint64_t heard_by(int fd)
{
	struct statx s;

	/* uroce's own have high numbers. Not fstat(), which ThreadSanitizer takes for a use: another thread may be
	 * about to close it */
	if (fd >= HIGH_FD || statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &s))
		return 0;
	return S_ISSOCK(s.stx_mode) ? socket_heard(fd) : S_ISFIFO(s.stx_mode) ? pipe_heard(fd) : 0;
}

uint64_t outside_heard(void)
{
	DIR *all = opendir("/proc/self/fd");
	const struct dirent *e;
	uint64_t heard = all ? 0 : UINT64_MAX;

	while (all && heard != UINT64_MAX && (e = readdir(all)))
		if (*e->d_name != '.')
			heard = max_of(heard, heard_by(atoi(e->d_name)));
	if (all)
		closedir(all);
	return !heard || heard > UINT64_MAX - tick() ? heard : heard + tick();
}

/* The device and the inode of a line of /proc/PID/maps, if that memory is shared and can be written to. */
static bool shared_file(const char *line, char file[64])
{
	char rights[5];

	return sscanf(line, "%*s %4s %*s %63[0-9a-f: ]", rights, file) == 2 && rights[1] == 'w' && rights[3] == 's' &&
	       !strstr(line, "/memfd:uroce");
}

static bool maps_file(FILE *maps, const char *file)
{
	char line[512], other[64];

	rewind(maps);
	while (fgets(line, sizeof(line), maps))
		if (shared_file(line, other) && !strcmp(file, other))
			return true;
	return false;
}

static bool shares_any(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], file[64];
	bool shares = !maps;

	while (maps && !shares && fgets(line, sizeof(line), maps))
		shares = shared_file(line, file);
	if (maps)
		fclose(maps);
	return shares;
}

bool outside_is_open(void)
{
	static uint64_t looked;
	static off_t count;
	static bool is_open;
	struct stat s;

	if (stat("/proc/self/fd", &s) || !s.st_size) /* before Linux 6.2, the size says nothing */
		return true;
	if (s.st_size != count || looked + OUTSIDE_LOOK < clock_now()) {
		count = s.st_size;
		is_open = outside_heard() || shares_any();
		looked = clock_now();
	}
	return is_open;
}

bool outside_shares(pid_t other)
{
	char line[512], file[64], name[32];
	FILE *mine = fopen("/proc/self/maps", "re"), *its;
	bool shares = false;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)other);
	its = fopen(name, "re");
	while (mine && its && !shares && fgets(line, sizeof(line), mine))
		shares = shared_file(line, file) && maps_file(its, file);
	shares |= !mine || !its;
	if (mine)
		fclose(mine);
	if (its)
		fclose(its);
	return shares;
}
