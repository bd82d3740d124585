/* SPDX-License-Identifier: BSD-2-Clause */
/* The guardian: a process that outlives this one, and then says what a kernel that outlives its processes would say: a
 * DREQ to each connected peer. So a peer on another host, or in another container, is told at once of every end: exit,
 * _exit(2), signals, SIGKILL, execve(2). (A peer that shares memory with this process sees it by itself: liveness.h.)
 *
 * It is made before the first connection to such a peer is established, and ends with this process. It has a pipe,
 * whose other end only this process holds; two UDP sockets of any port, so that it never holds port 4791; and a table,
 * in memory that the two share, of the datagrams to send. Those are complete: it only has to pass them to the kernel.
 *
 * It has no descriptor else, no memory of the program, no terminal and no directory; signals do not end it but SIGKILL.
 * It is no child of the program, so no wait(2) finds it. That it cannot be made (limits, a seccomp filter) is no
 * failure: then peers find out by time-outs. */
#ifndef UROCE_GUARDIAN_H
#define UROCE_GUARDIAN_H

#include "cm/cm.h"

/* Makes the guardian unless there is one, or UROCE_GUARDIAN=off. Blocks. One thread at a time. */
void guardian_start(void) EXCLUDES(cm.lock);

/* What the peer of this connection is to be told if the process ends now. NULL: nothing. */
void guardian_keep(const struct connection *c, const uint8_t mad[CM_MAD_BYTES]) REQUIRES(cm.lock);

/* Call in the child after fork(). */
void guardian_forget(void) REQUIRES(cm.lock);

#endif
