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
 * this host, is another user's, or cannot be watched. */
bool liveness_watch(const struct cm_address *address, uint16_t slot) REQUIRES(cm.lock);

#endif
