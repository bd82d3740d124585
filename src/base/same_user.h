/* SPDX-License-Identifier: BSD-2-Clause */
/* Comparison of users: whether another process, or a file, is of this process's user. No other function compares users.
 *
 * A user namespace shows each user that it does not map as the overflow uid (65534). A process whose own user ID shows
 * as that number cannot tell its user from those by the number. Then the kernel is asked in other ways: a process must
 * be in this process's user namespace, and a file must be one whose owner alone may set O_NOATIME. Any thread may
 * call. */
#ifndef UROCE_SAME_USER_H
#define UROCE_SAME_USER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Compares the other end of an AF_UNIX connection. *peer, unless it is NULL: SO_PEERCRED in any case; pid 0: of a PID
 * namespace that cannot be seen from here. If the number of the user does not suffice, kernels before Linux 6.5 cannot
 * tell whether the process is still the one that connected: false. */
bool same_user_peer(int connection, struct ucred *peer);

/* Compares the sender of a message, as SCM_CREDENTIALS tells. If the number of the user does not suffice, a process
 * that has got the pid of one that was ours is taken for it. */
bool same_user_sender(const struct ucred *sender);

/* Compares the owner of an open file, as fstat(2), whose result goes to *st. Not for O_PATH. */
bool same_user_file(int fd, struct stat *st);

/* True if the number stands for users that this user namespace does not map. */
bool user_is_unmapped(uid_t uid);

#endif
