/* SPDX-License-Identifier: BSD-2-Clause */
/* Direct placement: riomap(), riounmap(), riowrite(). */
#ifndef UROCE_RSOCKET_IOMAP_H
#define UROCE_RSOCKET_IOMAP_H

#include "rsocket/rsocket.h"

/* Tells the peer of maps it does not know yet. 0 or -errno. */
int iomap_publish(struct rsocket *rs, int flags) REQUIRES(rs->lock);
/* Deregisters all maps. */
void iomap_forget(struct rsocket *rs);

#endif
