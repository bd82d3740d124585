/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls on datagrams. A datagram goes to the UD QP of its receiver, or over UDP while that QP is not known or if it is
 * longer than the path MTU. No thread answers in the background: each call looks at what has come by UDP, and a thread
 * that sleeps wakes for it. */
#ifndef UROCE_RSOCKET_DATAGRAM_H
#define UROCE_RSOCKET_DATAGRAM_H

#include "rsocket/rsocket.h"

int datagram_open(struct rsocket *rs) REQUIRES(rs->lock);
/* Waits until all has been sent, CLOSE_MS at most. */
void datagram_close(struct rsocket *rs);
void datagram_free(struct rsocket *rs);
/* Bytes or -errno. */
ssize_t datagram_send(struct rsocket *rs, const struct iovec *iov, int count, int flags, const struct sockaddr *to,
		      socklen_t length) REQUIRES(rs->lock);
ssize_t datagram_receive(struct rsocket *rs, const struct iovec *iov, int count, int flags, struct sockaddr *from,
			 socklen_t *room) REQUIRES(rs->lock);
int datagram_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length) REQUIRES(rs->lock);
int datagram_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length) REQUIRES(rs->lock);
/* The events of poll(2) that are true now. */
short datagram_events(struct rsocket *rs) REQUIRES(rs->lock);

#endif
