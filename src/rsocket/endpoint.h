/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP, CQ and memory of a stream. */
#ifndef UROCE_RSOCKET_ENDPOINT_H
#define UROCE_RSOCKET_ENDPOINT_H

#include "rsocket/rsocket.h"

int endpoint_create(struct rsocket *rs) REQUIRES(rs->lock);
void endpoint_destroy(struct rsocket *rs);
/* The private data of REQ or REP. */
void endpoint_offer(struct rsocket *rs, struct rs_connect *to) REQUIRES(rs->lock);
/* Takes the peer's private data. 0 or -EPROTO. */
int endpoint_take(struct rsocket *rs, const void *data, size_t length) REQUIRES(rs->lock);

#endif
