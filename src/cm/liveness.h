/* SPDX-License-Identifier: BSD-2-Clause */
/* Liveness watch: detects the death of a peer process on this host. A process that is killed sends no DREQ. If the peer
 * is a process of this host, at one of our addresses, a pidfd reports its death. (Peers on other hosts are detected by
 * timeouts only.) */
#ifndef UROCE_LIVENESS_H
#define UROCE_LIVENESS_H

#include "cm/agent.h"

/* 0 or -errno; on failure no process is watched. Blocks. */
int liveness_start(void) EXCLUDES(cm.lock);
/* Call in the child after fork(). */
void liveness_forget(void) REQUIRES(cm.lock);

/* Call when the peer of this connection has sent a message: watches its process, if it is on this host. */
void liveness_watch(const struct connection *c) REQUIRES(cm.lock);

#endif
