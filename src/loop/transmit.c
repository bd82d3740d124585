/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/transmit.h"

#include <poll.h>

#define FULL_WAIT  1  /* ms that a full send buffer gets to empty ... */
#define FULL_TRIES 20 /* ... so often, before packets are dropped */

/* The socket's buffer is full: the network is slower than we are. Waiting a little loses nothing, as nothing else can
 * be sent there either; dropping would make us send it all again. */
static bool wait_for_room(struct link *link)
{
	struct pollfd p = {.fd = atomic_load_explicit(&link->full, memory_order_relaxed), .events = POLLOUT};

	return poll(&p, 1, FULL_WAIT) >= 0;
}

uint32_t transmit(struct link *link, const struct link_tx *tx, uint32_t count)
{
	uint32_t sent;

	for (uint32_t i = 0; hooks_any() && i < count; i++)
		transmit_note(tx[i].packet, link->ops == &local_peer_ops ? BY_RING : BY_UDP);
	sent = link->ops->send(link, tx, count);
	for (int i = 0; unlikely(sent < count) && i < FULL_TRIES && wait_for_room(link); i++)
		sent += link->ops->send(link, tx + sent, count - sent);
	return sent;
}
