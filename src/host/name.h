/* SPDX-License-Identifier: BSD-2-Clause */
/* A name at which processes of this user find each other. It is abstract: all of the network namespace see it,
 * containers with other file systems, too. But any user may bind it. If another user has, the process binds a name in
 * a folder that only this user can write to, in place of it; and whoever looks for a name looks there first. The folder
 * is made when it is needed: $XDG_RUNTIME_DIR/uroce, /run/user/UID/uroce, /run/uroce-UID or /tmp/uroce-UID, the first
 * that belongs to this user, with mode 0700. Processes with different folders do not find each other then: they use
 * UDP.
 *
 * The abstract names are those of slot_abstract(). Any thread may call. */
#ifndef UROCE_HOST_NAME_H
#define UROCE_HOST_NAME_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* 0; -EADDRINUSE: a process of this user has it, or another user has and there is no folder; or another -errno. */
int name_bind(int fd, const struct sockaddr_un *name, socklen_t size);

/* name_bind() where the abstract name is not to be had: in the folder. */
int name_bind_in_folder(int fd, const struct sockaddr_un *name, socklen_t size);

/* Whether there is such a folder. If not, names are abstract, and who looks for many need not look in it each time. */
bool name_has_folder(void);

/* As connect(2) and sendto(2): -1 and errno. */
int name_connect(int fd, const struct sockaddr_un *name, socklen_t size);
ssize_t name_send(int fd, const void *bytes, size_t count, const struct sockaddr_un *name, socklen_t size);

/* Whether `fd` is connected to a name in the folder, which only this user can have bound. */
bool name_is_of_folder(int fd);

/* Whether a process has the name in the folder. */
bool name_is_in_folder(const struct sockaddr_un *name, socklen_t size);

/* The path of a file of the folder. False: there is no folder, or no room for it. */
bool name_folder_file(char *path, size_t room, const char *file, bool make);

/* A file of the folder, to be locked; or a negative number: there is no folder. */
int name_lock_file(void);

/* Says once that another user has the name, and what uroce does. */
void name_say_foreign(const struct sockaddr_un *name, socklen_t size, uid_t uid);

#endif
