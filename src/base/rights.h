/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages with descriptors (SCM_RIGHTS of unix(7)). Any thread may call. */
#ifndef UROCE_RIGHTS_H
#define UROCE_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RIGHTS_MOST 8u /* descriptors of a message */

/* Sends a message with `count` descriptors. Does not wait. 0 or -errno. */
int rights_send(int socket, const void *bytes, size_t size, const int *fd, unsigned count);

/* Receives a message with at most `most` descriptors, which the caller closes; fd[i] is -1 for each that did not come.
 * `flags` are those of recvmsg(2). Returns the length of the message, or -errno, and then no descriptor. -EBADMSG: the
 * message is longer than `size`, or came with more descriptors. */
ssize_t rights_receive(int socket, void *bytes, size_t size, int flags, int *fd, unsigned most);

/* True if the descriptor is a non-blocking eventfd, or the kernel refuses writes to it. A pipe or a socket could block
 * a thread that writes, or end the process by a signal. */
bool rights_is_doorbell(int fd);

#endif
