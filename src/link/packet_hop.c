/* SPDX-License-Identifier: BSD-2-Clause */
/* Where frames go: the kernel's routes and neighbors, asked once and again when they change. The kernel looks for a
 * neighbor, and asks whether it is still there, when it has something to send to it. It sees nothing of our frames, so
 * what it is to look for is sent by the udp link. */
#include <arpa/inet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>

#include "link/netif.h"
#include "link/next_hop.h"
#include "link/packet.h"

static bool own_mac(const struct packet_link *p, uint8_t mac[6])
{
	struct ifreq r = {0};

	if (!if_indextoname((unsigned)p->netif, r.ifr_name) || ioctl(p->udp.link.socket, SIOCGIFHWADDR, &r))
		return false;
	memcpy(mac, r.ifr_hwaddr.sa_data, 6);
	return true;
}

static void packet_hop_look(struct packet_link *p, struct packet_hop *h, const union ibv_gid *to, uint32_t changes)
	REQUIRES(h->lock)
{
	int found = next_hop_now(p->netif, &p->udp.link.gid, to, h->mac);

	h->to = *to;
	h->looked = changes;
	h->by_frames = found >= 0 && own_mac(p, h->own_mac);
	h->stale = found == NEXT_HOP_STALE;
}

bool packet_hop_find(struct packet_link *p, const union ibv_gid *to, uint8_t header[FRAME_ETHERNET])
{
	struct packet_hop *h = &p->hop[udp_hash(to, 0) >> 26];
	uint32_t changes = atomic_load_explicit(&p->changes, memory_order_relaxed);
	uint16_t type = htons(p->udp.is_ipv4 ? ETHERTYPE_IP : ETHERTYPE_IPV6);
	bool by_frames;

	static_assert(PACKET_HOPS == 1 << (32 - 26), "the hash's top bits are the row");
	lock_take(&h->lock);
	if (unlikely(h->looked != changes || memcmp(&h->to, to, sizeof(*to))))
		packet_hop_look(p, h, to, changes);
	by_frames = h->by_frames && !h->stale;
	h->stale = false;
	memcpy(header, h->mac, 6);
	memcpy(header + 6, h->own_mac, 6);
	memcpy(header + 12, &type, sizeof(type));
	lock_drop(&h->lock);
	return by_frames;
}
