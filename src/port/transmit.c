/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/transmit.h"

#include "base/hooks.h"
#include "link/record.h"
#include "memory/gpu.h"
#include "object/capture.h"
#include "port/down.h"
#include "port/local_peer.h"

/* A failed copy, as when the driver has lost the GPU, fails later requests. */
void transmit_settle(void)
{
	if (hook_is_on(HOOK_GPU))
		gpu_settle();
}

/* Calls the hooks on packets that leave, then sends. Packets of a port that is down are lost, as on an unplugged
 * cable. */
static __attribute__((cold, noinline)) uint32_t transmit_heard(struct link *link, const struct link_tx *tx,
							       uint32_t count)
{
	transmit_settle();
	for (uint32_t i = 0; i < count; i++) {
		transmit_note(tx[i].packet, link->ops == &local_peer_ops ? BY_RING : BY_UDP);
		transmit_capture(link, &tx[i]);
	}
	if (!hook_is_on(HOOK_PORT_DOWN))
		return link->ops->send(link, tx, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t done = down_drops(link, &tx[i]) ? 1 : link->ops->send(link, &tx[i], 1);

		if (done != 1)
			return done ? i | LINK_UNREADABLE : i;
	}
	return count;
}

__attribute__((cold)) void transmit_capture(struct link *link, const struct link_tx *tx)
{
	const struct packet *p = tx->packet;
	struct iovec placed = {(void *)tx->placed, p->length};

	if (!hook_is_on(HOOK_CAPTURE))
		return;
	capture_packet(p, &(struct capture_seen){
				  .from = tx->sgid ?: &link->gid,
				  .to = tx->dgid ?: &link->gid,
				  .traffic_class = tx->traffic_class,
				  .hop_limit = tx->hop_limit,
				  .flow_label = tx->flow_label,
				  .link = link->ops == &local_peer_ops ? CAPTURE_RING : CAPTURE_UDP,
				  .iov = tx->placed ? &placed : tx->iov,
				  .iovs = tx->placed ? 1 : tx->iovs,
			  });
}

void transmit_capture_record(const void *record, uint32_t bytes, const struct path *path)
{
	const union ibv_gid *from = &path->sgid;
	struct packet p;

	if (!hook_is_on(HOOK_CAPTURE) || record_get(record, bytes, &p, &from))
		return;
	if (p.brief)
		record_get_rest(&p);
	capture_packet(&p, &(struct capture_seen){
				   .from = from,
				   .to = &path->dgid,
				   .traffic_class = path->traffic_class,
				   .hop_limit = path->hop_limit,
				   .flow_label = path->flow_label,
				   .link = CAPTURE_RING,
				   .iov = &(struct iovec){(void *)p.payload, packet_carries(&p)},
				   .iovs = 1,
			   });
}

uint32_t transmit(struct link *link, const struct link_tx *tx, uint32_t count)
{
	if (hooks_any())
		return transmit_heard(link, tx, count);
	return link->ops->send(link, tx, count);
}
