/* SPDX-License-Identifier: BSD-2-Clause */
/* Moves descriptors of uroce above those of the program. A program expects the lowest free numbers for its own
 * descriptors, and may have short tables of them, or fd_sets. */
#ifndef UROCE_HIGH_FD_H
#define UROCE_HIGH_FD_H

#include <unistd.h>

/* Moves a descriptor to a high number and sets close-on-exec. Returns the new number, or the old one if that is not
 * possible. A negative `fd` is returned unchanged. Keeps errno. */
int high_fd(int fd);

/* Closes a descriptor, if there is one (not negative), and makes it -1. */
static inline void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

#endif
