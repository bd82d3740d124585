/* SPDX-License-Identifier: BSD-2-Clause */
/* The user whose process has bound an abstract AF_UNIX name in this network namespace, as sock_diag(7) tells. Any
 * process may bind any such name, so another user may have taken it. Any thread may call. */
#ifndef UROCE_HOST_NAME_OWNER_H
#define UROCE_HOST_NAME_OWNER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/* 0 and the user; -ENOENT: no process has bound it; or another -errno: the kernel does not tell (before Linux 5.3). */
int name_owner(const struct sockaddr_un *address, socklen_t size, uid_t *uid);

/* The same of the socket that `fd` is connected to, which may be of datagrams. -ENOENT: it is closed. */
int name_owner_of_peer(int fd, uid_t *uid);

/* How many abstract names that begin so other users have bound, as far as the kernel tells. If any: *uid is one of
 * them.
 */
unsigned names_foreign(const char *prefix, uid_t *uid);

/* Whether another user has bound it, as far as the kernel tells. */
bool name_is_foreign(const struct sockaddr_un *address, socklen_t size, uid_t *uid);

#endif
