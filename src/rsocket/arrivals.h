/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams received: from UD QPs, and by UDP, where a peer's first datagram comes and the answer that tells its QP. */
#ifndef UROCE_RSOCKET_ARRIVALS_H
#define UROCE_RSOCKET_ARRIVALS_H

#include "rsocket/dest.h"

/* Takes completions, and what has come by UDP. */
void datagram_process(struct rsocket *rs) REQUIRES(rs->lock);
/* The next completion calls rsocket_wake(). */
void datagram_arm(struct rsocket *rs) EXCLUDES(rs->lock);
/* Sends by UDP with the header that tells this side's QP. 0 or -errno. */
int udp_message_send(struct rsocket *rs, const struct dest *dest, enum rs_op op, const struct iovec *iov, int count);

#endif
