/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/high_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"
#include "base/tuned.h"

int high_fd(int fd)
{
	int saved = errno, moved;
	struct rlimit limit;

	if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit))
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, (int)min_of(limit.rlim_cur / 2, (rlim_t)HIGH_FD));
	errno = saved;
	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

/* Enlarges the descriptor table of the process at start-up. Once there are threads, that waits for all processors, 10
 * ms and more. */
__attribute__((constructor)) static void high_fd_be_early(void)
{
	int fd = high_fd(eventfd(0, EFD_CLOEXEC));

	if (fd >= 0)
		close(fd);
}
