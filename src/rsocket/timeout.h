/* SPDX-License-Identifier: BSD-2-Clause */
/* What is due at a time: keepalives of connected rsockets, and the end of connection attempts. */
#ifndef UROCE_RSOCKET_TIMEOUT_H
#define UROCE_RSOCKET_TIMEOUT_H

#include "rsocket/rsocket.h"

/* Sets RS_CONNECTED, and the keepalive if there is one. */
void rsocket_connected(struct rsocket *rs) REQUIRES(rs->lock);
/* The options SO_KEEPALIVE or TCP_KEEPIDLE have changed, or the rsocket is closed. */
void timeout_keepalive(struct rsocket *rs) REQUIRES(rs->lock);
/* The connection attempt ends at `until`, in ns of clock_now(). */
void timeout_connect(struct rsocket *rs, uint64_t until) REQUIRES(rs->lock);
void timeout_forget(struct rsocket *rs);
/* An rsocket that is due, with a reference; NULL: none until *next, ns of clock_now() or NEVER. */
struct rsocket *timeout_due(uint64_t now, uint64_t *next);
/* The list is the parent's. */
void timeout_in_child(void);

#endif
