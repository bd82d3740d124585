/* SPDX-License-Identifier: BSD-2-Clause */
/* The user whose process has bound an abstract AF_UNIX name in this network namespace, as sock_diag(7) tells: any
 * process may bind any such name. Any thread may call. */
#ifndef UROCE_HOST_NAME_OWNER_H
#define UROCE_HOST_NAME_OWNER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Finds the user. 0; -ENOENT: no process has bound the name; or another -errno: the kernel does not tell (before
 * Linux 5.3). */
int name_owner(const struct sockaddr_un *address, socklen_t size, uid_t *uid);

/* The same for the socket that `fd` is connected to, which may be of datagrams. -ENOENT: closed. */
int name_owner_of_peer(int fd, uid_t *uid);

/* Number of abstract names with that prefix that other users have bound, as far as the kernel tells. *uid: one of these
 * users. */
unsigned names_foreign(const char *prefix, uid_t *uid);

/* True if another user has bound the name, as far as the kernel tells. */
bool name_is_foreign(const struct sockaddr_un *address, socklen_t size, uid_t *uid);

#endif
