/* SPDX-License-Identifier: BSD-2-Clause */
/* Binding, listening, connecting, closing. */
#ifndef UROCE_RSOCKET_CONNECT_H
#define UROCE_RSOCKET_CONNECT_H

#include "rsocket/rsocket.h"

int rsocket_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length) REQUIRES(rs->lock);
int rsocket_listen(struct rsocket *rs, int backlog) REQUIRES(rs->lock);
/* 0, -EINPROGRESS or -errno. */
int rsocket_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length) REQUIRES(rs->lock);
/* The next connection of a listener, with a reference; NULL: none. */
struct rsocket *rsocket_next(struct rsocket *rs) REQUIRES(rs->lock);
/* Ends the connection and puts the reference, which was the table's. */
void rsocket_close(struct rsocket *rs);

#endif
