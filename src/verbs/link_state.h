/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that `uroce link down` has taken down: one state for all processes of a user in a network namespace, in a file
 * that is there while a port is down, in /dev/shm or, where another user has made it, in this user's folder. Each line
 * of it is a device's name and its addresses. A process that has devices open has a datagram socket with a name; a
 * datagram to it says that the file has changed. */
#ifndef UROCE_LINK_STATE_H
#define UROCE_LINK_STATE_H

#include <stdbool.h>
#include <stdio.h>

#include "verbs/fork.h"

struct device;

/* Reads the file. True if it says other things than the last time; then loop/ knows them. */
bool links_read(void) REQUIRES(monitor_lock);

/* As the file said when it was last read. Any thread may call, with any lock. */
bool link_is_down(const char *device);

/* The socket, non-blocking, of the process with this slot; or -errno. */
int links_listen(unsigned slot);
/* Empties it; true if something was there. */
bool links_told(int socket);

/* Takes the port of a device down or up, and tells all processes. 0; -ENODEV: there is no such device; or another
 * -errno. For the command `uroce link`, which finds it by its name. */
int uroce_link_set(const char *device, bool up);

/* For tests: the file's new text, to be freed: the lines of other devices stay, the device's own is new, or gone. NULL:
 * no memory. And what the file says, from a stream. */
char *links_rewritten(const char *text, struct device *d, bool up, size_t *length);
void links_parse(FILE *in) REQUIRES(monitor_lock);

#endif
