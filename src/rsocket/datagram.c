/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/datagram.h"

int datagram_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	return -EOPNOTSUPP;
}
int datagram_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	return -EOPNOTSUPP;
}
ssize_t datagram_send(struct rsocket *rs, const struct iovec *iov, int count, int flags, const struct sockaddr *to,
		      socklen_t length)
{
	return -EOPNOTSUPP;
}
ssize_t datagram_receive(struct rsocket *rs, const struct iovec *iov, int count, int flags, struct sockaddr *from,
			 socklen_t *room)
{
	return -EOPNOTSUPP;
}
void datagram_close(struct rsocket *rs)
{
}
