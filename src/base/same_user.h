/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether another process, or a file, is of this process's user: the only functions that compare users.
 *
 * A user namespace shows each user that it does not map as the overflow uid (65534). A process whose own user ID shows
 * as that number cannot tell its user from them by the number. Then the kernel is asked in other ways: a process must
 * be in this process's user namespace, and a file must be one whose owner alone may set O_NOATIME. Any thread may call.
 */
#ifndef UROCE_SAME_USER_H
#define UROCE_SAME_USER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* The other end of an AF_UNIX connection. *peer, unless it is NULL, becomes what SO_PEERCRED says, in any case; a
 * process whose PID namespace cannot be seen from here has the pid 0. Where the number of the user does not suffice,
 * kernels before Linux 6.5 cannot say whether the process still is the one that has connected: false. */
bool same_user_peer(int connection, struct ucred *peer);

/* The sender of a message, as SCM_CREDENTIALS says. Where the number of the user does not suffice, a process that has
 * got the pid of one that was ours meanwhile is taken for it. */
bool same_user_sender(const struct ucred *sender);

/* The owner of an open file, as fstat(2), whose result goes to *st. Not for O_PATH. */
bool same_user_file(int fd, struct stat *st);

/* The number stands for users that this user namespace does not map. */
bool user_is_unmapped(uid_t uid);

#endif
