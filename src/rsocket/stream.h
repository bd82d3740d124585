/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls on a stream: bytes and readiness. */
#ifndef UROCE_RSOCKET_STREAM_H
#define UROCE_RSOCKET_STREAM_H

#include "rsocket/rsocket.h"

/* Flag of stream_receive(): the call of a bridge. No MSG_ flag of the C library has this value. */
#define RS_BRIDGES 0x800000

/* Bytes or -errno. */
ssize_t stream_send(struct rsocket *rs, const struct iovec *iov, int count, int flags) REQUIRES(rs->lock);
ssize_t stream_receive(struct rsocket *rs, const struct iovec *iov, int count, int flags) REQUIRES(rs->lock);
int stream_shutdown(struct rsocket *rs, int how) REQUIRES(rs->lock);
/* The events of poll(2) that are true now. */
short stream_events(struct rsocket *rs) REQUIRES(rs->lock);

#endif
