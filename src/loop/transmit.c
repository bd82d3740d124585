/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/transmit.h"

uint32_t transmit(struct link *link, const struct link_tx *tx, uint32_t count)
{
	for (uint32_t i = 0; hooks_any() && i < count; i++)
		transmit_note(tx[i].packet, link->ops == &local_peer_ops ? BY_RING : BY_UDP);
	return link->ops->send(link, tx, count);
}
