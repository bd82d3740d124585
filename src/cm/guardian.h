/* SPDX-License-Identifier: BSD-2-Clause */
/* The guardian: a process that outlives this one, and then does what a kernel would do at the end of a process: it
 * sends a DREQ to each connected peer. So a peer on another host, or in another container, learns at once of every
 * end: exit, _exit(2), signals, SIGKILL, execve(2). (A peer that shares memory with this process detects the end
 * itself: liveness.h.)
 *
 * The guardian is started before the first connection to such a peer is established, at its server when the
 * application fetches the request, and ends with this process. It has a pipe, whose other end only this process holds;
 * two UDP sockets of any port, so that port 4791 is never held; and a shared table of complete datagrams, which only
 * have to be passed to the kernel.
 *
 * The guardian has no other descriptor, no memory of the program, no terminal and no directory. Only SIGKILL ends
 * it. As it is no child of the program, no wait(2) finds it. If it cannot be started (limits, a seccomp filter),
 * peers find out by time-outs. */
#ifndef UROCE_GUARDIAN_H
#define UROCE_GUARDIAN_H

#include "cm/cm.h"

/* Starts the guardian, unless it runs or UROCE_GUARDIAN=off. Blocks. One thread at a time. */
void guardian_start(void) EXCLUDES(cm.lock);

/* Stores the message that the connection's peer gets if the process ends now. NULL: none. */
void guardian_keep(const struct connection *c, const uint8_t mad[CM_MAD_BYTES]) REQUIRES(cm.lock);

/* Call in the child after fork(). */
void guardian_forget(void) REQUIRES(cm.lock);

#endif
