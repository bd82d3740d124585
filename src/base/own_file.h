/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens a file to keep something in, at a path in which other users may have made files and symbolic links first, as in
 * /tmp: a report, a trace, a state. What it opens is a new file, one of this user, or a device. Symbolic links are
 * followed if root or this user made them; what /proc has under a descriptor's number is what that descriptor has. */
#ifndef UROCE_OWN_FILE_H
#define UROCE_OWN_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define OWN_FILE_WHY 160 /* bytes: room for what is wrong, in words */

/* As open(2), with O_CLOEXEC and O_NOCTTY, and never blocking. A descriptor; or -errno, and *why says what is wrong and
 * what to do. An existing file that is writable by others, though `mode` would not make it so, is refused. */
int own_file_open(const char *path, int flags, mode_t mode, char why[OWN_FILE_WHY]);

/* Locks the file, as flock(2). Nobody waits for long: the lock's holder may have been stopped. -EBUSY: it does not
 * release the lock within `patience` ns; 0 or another -errno. */
int own_file_lock(int fd, uint64_t patience);

/* The same as fopen(path, "w") does. NULL: *why. */
FILE *own_file_stream(const char *path, char why[OWN_FILE_WHY]);

#endif
