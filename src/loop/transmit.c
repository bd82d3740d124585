/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/transmit.h"

#include "loop/down.h"

/* What listens to packets that leave. Where a port is down, what it concerns is lost, as on a cable that is unplugged.
 */
static __attribute__((cold, noinline)) uint32_t transmit_heard(struct link *link, const struct link_tx *tx,
							       uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		transmit_note(tx[i].packet, link->ops == &local_peer_ops ? BY_RING : BY_UDP);
	if (!hook_is_on(HOOK_PORT_DOWN))
		return link->ops->send(link, tx, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t done = down_drops(link, &tx[i]) ? 1 : link->ops->send(link, &tx[i], 1);

		if (done != 1)
			return done ? i | LINK_UNREADABLE : i;
	}
	return count;
}

uint32_t transmit(struct link *link, const struct link_tx *tx, uint32_t count)
{
	if (hooks_any())
		return transmit_heard(link, tx, count);
	return link->ops->send(link, tx, count);
}
