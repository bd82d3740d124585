/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/memfd.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/aside.h"

int memfd_of_size(const char *name, unsigned flags, uint64_t bytes)
{
	struct rlimit limit;
	int fd, err;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < bytes)
		return -EFBIG;
	fd = fd_aside(memfd_create(name, MFD_CLOEXEC | flags));
	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)bytes))
		return fd;
	err = -errno;
	close(fd);
	return err;
}
