/* SPDX-License-Identifier: BSD-2-Clause */
/* Readiness of rsockets. */
#ifndef UROCE_RSOCKET_POLL_H
#define UROCE_RSOCKET_POLL_H

#include "rsocket/rsocket.h"

/* poll(2) of rsockets and ordinary descriptors. `until`: ns of clock_now(), 0: do not sleep, or NEVER. How many are
 * ready; -ESTALE: one is given to a bridge; else -errno. */
int rsocket_poll(struct pollfd *fds, nfds_t count, uint64_t until);
/* The events that are true now, of `wanted`, POLLERR, POLLHUP and POLLNVAL. */
short rsocket_events(struct rsocket *rs, short wanted);

#endif
