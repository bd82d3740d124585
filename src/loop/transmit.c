/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/transmit.h"

#include "loop/down.h"

/* Where a port is down: what it concerns is lost, as on a cable that is unplugged. */
static __attribute__((cold, noinline)) uint32_t transmit_past_down(struct link *link, const struct link_tx *tx,
								   uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t done = down_drops(link, &tx[i]) ? 1 : link->ops->send(link, &tx[i], 1);

		if (done != 1)
			return done ? i | LINK_UNREADABLE : i;
	}
	return count;
}

uint32_t transmit(struct link *link, const struct link_tx *tx, uint32_t count)
{
	for (uint32_t i = 0; hooks_any() && i < count; i++)
		transmit_note(tx[i].packet, link->ops == &local_peer_ops ? BY_RING : BY_UDP);
	if (hooks_any() && hook_is_on(HOOK_PORT_DOWN))
		return transmit_past_down(link, tx, count);
	return link->ops->send(link, tx, count);
}
