/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/high_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"

#define HIGH_FD 512 /* from here on, or from the middle of what the program may have */

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

/* The process's table of descriptors gets as long as it will have to be. Once there are threads that waits for all
 * processors, 10 ms and more. */
__attribute__((constructor)) static void high_fd_be_early(void)
{
	int fd = high_fd(eventfd(0, EFD_CLOEXEC));

	if (fd >= 0)
		close(fd);
}
