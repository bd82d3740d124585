/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/memfd.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/high_fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3; may be demanded there */
#endif

int memfd_new(const char *name, unsigned flags)
{
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

int memfd_of_size(const char *name, unsigned flags, uint64_t bytes)
{
	struct rlimit limit;
	int fd, err;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < bytes)
		return -EFBIG;
	fd = high_fd(memfd_new(name, MFD_CLOEXEC | flags));
	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)bytes))
		return fd;
	err = -errno;
	close(fd);
	return err;
}
