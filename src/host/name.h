/* SPDX-License-Identifier: BSD-2-Clause */
/* A name at which processes of this user find each other. The name is abstract: all of the network namespace see it,
 * also containers with other file systems. But any user may bind it. If another user has, the process binds a name in a
 * folder instead that only this user can write to; processes look for names there first. The folder is made when
 * needed: $XDG_RUNTIME_DIR/uroce, /run/user/UID/uroce, /run/uroce-UID or /tmp/uroce-UID, the first that belongs to this
 * user, with mode 0700. Processes with different folders do not find each other then, and use UDP.
 *
 * The abstract names are those of slot_abstract(). Any thread may call. */
#ifndef UROCE_HOST_NAME_H
#define UROCE_HOST_NAME_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* Binds a socket to the name. 0; -EADDRINUSE: a process of this user has the name, or another user has it and there is
 * no folder; or another -errno. */
int name_bind(int fd, const struct sockaddr_un *name, socklen_t size);

/* Binds a socket to the name in the folder, as the abstract one cannot be had. Returns as name_bind(). */
int name_bind_in_folder(int fd, const struct sockaddr_un *name, socklen_t size);

/* True if the folder exists. If not, a caller with many names need not look in it for each. */
bool name_has_folder(void);

/* As connect(2) and sendto(2): -1 and errno. */
int name_connect(int fd, const struct sockaddr_un *name, socklen_t size);
ssize_t name_send(int fd, const void *bytes, size_t count, const struct sockaddr_un *name, socklen_t size);

/* True if `fd` is connected to a name in the folder, which only this user can have bound. */
bool name_is_of_folder(int fd);

/* True if a process has the name in the folder. */
bool name_is_in_folder(const struct sockaddr_un *name, socklen_t size);

/* Writes the path of a file of the folder to path[0..room-1]. False: there is no folder, or no room. */
bool name_folder_file(char *path, size_t room, const char *file, bool make);

/* Opens a file of the folder, to be locked. A negative number: there is no folder. */
int name_lock_file(void);

/* Logs once that another user has the name, and what uroce does. */
void name_say_foreign(const struct sockaddr_un *name, socklen_t size, uid_t uid);

#endif
