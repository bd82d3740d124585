/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that `uroce link down` has taken down: one state for all processes of a user in a network namespace, in a file
 * that is there while a port is down, in /dev/shm or, where another user has made it, in this user's folder. Each line
 * of it is a device's name and its addresses. A process that has devices open has a datagram socket with a name; a
 * datagram to it says that the file has changed. */
#ifndef UROCE_DEVICE_LINK_STATE_H
#define UROCE_DEVICE_LINK_STATE_H

#include <stdbool.h>
#include <stdio.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/lock.h"
#include "base/own_file.h"

/* monitor.c: guards what the file said, and the monitor's state. Taken before a context's and a device's lock, cm.lock
 * and qp->lock. */
extern struct lock monitor_lock;

/* Reads the file. True if it says other things than the last time; then loop/ knows them. */
bool links_read(void) REQUIRES(monitor_lock);

/* As the file said when it was last read. Any thread may call, with any lock. */
bool link_is_down(const char *device);

/* For link_set.c. The file and its path. To write, it is made and locked: who writes puts a new file in its place, so
 * that readers need no lock and wait for nobody. -errno: there is none, or *why. */
int links_open(char path[PATH_MAX], bool write, char why[OWN_FILE_WHY]);
/* What the file says. The caller frees it. NULL: no memory. */
char *links_text(int fd);
/* The name of the socket of the process with this slot; returns the size of the address. */
socklen_t links_name(struct sockaddr_un *address, unsigned slot);

/* The socket, non-blocking, of the process with this slot; or -errno. */
int links_listen(unsigned slot);
/* Empties it; true if something was there. */
bool links_told(int socket);

/* For tests: what the file says, from a stream. */
void links_parse(FILE *in) REQUIRES(monitor_lock);

#endif
