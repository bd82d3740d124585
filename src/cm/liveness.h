/* SPDX-License-Identifier: BSD-2-Clause */
/* Liveness watch: detects the end of a peer process of this user on this host, which may send no DREQ. An AF_UNIX
 * connection hangs up when the process ends or executes another program. guardian.h informs other peers. */
#ifndef UROCE_LIVENESS_H
#define UROCE_LIVENESS_H

#include "cm/cm.h"

/* Starts the watch. 0 or -errno; on failure no process is watched. Blocks. */
int liveness_start(void) EXCLUDES(cm.lock);
/* Call in the child after fork(). */
void liveness_forget(void) REQUIRES(cm.lock);

/* Watches the process in `slot`, which has sent a message between these addresses. False if the process is not on
 * this host, is another user's, or cannot be watched. `has_called`: the message was a request, and its sender repeats
 * it or is answered for. The sender of another message may have ended since, which machine_bury() then says. */
bool liveness_watch(const struct cm_address *address, uint16_t slot, bool has_called) REQUIRES(cm.lock);
/* True if there is a connection to that process, which so has one to this. */
bool liveness_is_connected(uint16_t slot) REQUIRES(cm.lock);

/* Looks at processes that have no connection, though they seem to live. Call when the machine's deadline has come.
 * Returns the next time, or NEVER. Blocks for a moment. */
uint64_t liveness_look(void) EXCLUDES(cm.lock);

#endif
