/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose an abstract AF_UNIX name is: of any user's process in this network namespace, as sock_diag(7) tells. Any
 * process may bind any such name, so another user may be in the way. Any thread may call. */
#ifndef UROCE_NAME_OWNER_H
#define UROCE_NAME_OWNER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/* 0 and the user; -ENOENT: nobody has it now; or another -errno: the kernel does not tell (before Linux 5.3). */
int name_owner(const struct sockaddr_un *address, socklen_t size, uid_t *uid);

/* Whether it is another user's, as far as the kernel tells. */
bool name_is_foreign(const struct sockaddr_un *address, socklen_t size, uid_t *uid);

#endif
