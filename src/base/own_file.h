/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens a file to keep something in, at a path where other users may have made files and symbolic links first, as in
 * /tmp: a report, a trace, a state. The file is a new one, one of this user, or a device. Symbolic links are followed
 * if root or this user made them; a link of /proc to a descriptor leads to that descriptor's file. */
#ifndef UROCE_OWN_FILE_H
#define UROCE_OWN_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define OWN_FILE_WHY 160 /* bytes of room for a description of the mistake */

/* As open(2), with O_CLOEXEC and O_NOCTTY, and never blocking. Returns a descriptor; or -errno, and in *why the mistake
 * and the remedy. An existing file that is writable by others, though `mode` would not make it so, is refused. */
int own_file_open(const char *path, int flags, mode_t mode, char why[OWN_FILE_WHY]);

/* Locks the file, as flock(2). -EBUSY: the holder, which may have been stopped, does not release the lock within
 * `patience` ns; 0 or another -errno. */
int own_file_lock(int fd, uint64_t patience);

/* own_file_open() as fopen(path, "w"). NULL: *why. */
FILE *own_file_stream(const char *path, char why[OWN_FILE_WHY]);

#endif
