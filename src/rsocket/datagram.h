/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: over UD queue pairs, one for each address of ours; over UDP to peers whose queue pair is not known yet. */
#ifndef UROCE_RSOCKET_DATAGRAM_H
#define UROCE_RSOCKET_DATAGRAM_H

#include "rsocket/rsocket.h"

ssize_t datagram_send(struct rsocket *rs, const struct iovec *iov, int count, int flags, const struct sockaddr *to,
		      socklen_t length) REQUIRES(rs->lock);
ssize_t datagram_receive(struct rsocket *rs, const struct iovec *iov, int count, int flags, struct sockaddr *from,
			 socklen_t *room) REQUIRES(rs->lock);
int datagram_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length) REQUIRES(rs->lock);
int datagram_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length) REQUIRES(rs->lock);
short datagram_events(struct rsocket *rs) REQUIRES(rs->lock);
/* Takes what has completed. */
void datagram_process(struct rsocket *rs) REQUIRES(rs->lock);
void datagram_arm(struct rsocket *rs) EXCLUDES(rs->lock);

#endif
