/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that `uroce link down` has taken down: one state for all processes of a user in a network namespace. A file
 * exists while a port is down, in /dev/shm or, if another user has taken the name, in this user's folder. Each line
 * is a device's name and its addresses. A process with open devices has a named datagram socket; a datagram to it
 * says that the file has changed. */
#ifndef UROCE_DEVICE_LINK_STATE_H
#define UROCE_DEVICE_LINK_STATE_H

#include <stdbool.h>
#include <stdio.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/lock.h"
#include "base/own_file.h"

/* Guards the contents of the file as last read, and monitor.c's state. Taken before a context's and a device's lock,
 * cm.lock and qp->lock. */
extern struct lock monitor_lock;

/* Reads the file. True if the contents have changed; loop/ has been told then. */
bool links_read(void) REQUIRES(monitor_lock);

/* True if the port was down when the file was last read. Any thread may call, with any lock. */
bool link_is_down(const char *device);

/* Opens the file and returns its descriptor and path, for link_set.c. For writing, it is created and locked: a
 * writer replaces the file by a new one, so readers need no lock. -errno if there is none, or with a reason in
 * `why`. */
int links_open(char path[PATH_MAX], bool write, char why[OWN_FILE_WHY]);
/* Text of the file, which the caller frees. NULL without memory. */
char *links_text(int fd);
/* Name of the socket of the process with this slot; returns the size of the address. */
socklen_t links_name(struct sockaddr_un *address, unsigned slot);

/* A non-blocking socket of that name, or -errno. */
int links_listen(unsigned slot);
/* Empties the socket; true if there was a datagram. */
bool links_told(int socket);

/* Parses a file's text. Public for tests. */
void links_parse(FILE *in) REQUIRES(monitor_lock);

#endif
