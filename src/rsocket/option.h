/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of rsockets, as getsockopt(2), setsockopt(2) and rsocket(7) have them. 0 or -errno. */
#ifndef UROCE_RSOCKET_OPTION_H
#define UROCE_RSOCKET_OPTION_H

#include "rsocket/rsocket.h"

int option_set(struct rsocket *rs, int level, int name, const void *value, socklen_t length) REQUIRES(rs->lock);
int option_get(struct rsocket *rs, int level, int name, void *to, socklen_t *room) REQUIRES(rs->lock);

#endif
