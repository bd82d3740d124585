/* SPDX-License-Identifier: BSD-2-Clause */
/* Where Ethernet frames to an IP address go, as the kernel knows it or finds it out. Any thread may call; may block. */
#ifndef UROCE_NEXT_HOP_H
#define UROCE_NEXT_HOP_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* The MAC address that frames to this address have, if they leave by this interface; its own, `mac`, stays if the
 * address is the host's. 0 or -errno: -ENETUNREACH and what else the kernel says of routes, -EHOSTUNREACH (nobody
 * answers, after a second). */
int next_hop_mac(int netif, const union ibv_gid *to, uint8_t mac[6]);

/* Whether the kernel knows where packets to this address go that leave from that one: 0, or -EAGAIN: it does not know
 * the neighbor that they are for, or not yet, and is looking for it; or another -errno: it could not tell. Does not
 * block. Where there are no neighbors, 0. `netif` has the source address. */
int next_hop_look(int netif, const union ibv_gid *from, const union ibv_gid *to);

/* The same for frames that leave by that interface, without waiting, and when the kernel decides alone: 0;
 * NEXT_HOP_STALE: it has not heard of the neighbor for a while, and asks it if it has something to send to it; -EAGAIN:
 * it does not know the neighbor yet; -EXDEV: packets do not leave by that interface, or not as plain frames, or the
 * address is the host's; or another -errno. */
#define NEXT_HOP_STALE 1
int next_hop_now(int netif, const union ibv_gid *from, const union ibv_gid *to, uint8_t mac[6]);

/* A non-blocking socket that becomes readable when what the above say may change (netif_changed() empties it); or
 * -errno. */
int next_hop_watch(void);

/* The VLAN that an interface is in; NO_VLAN: none. */
#define NO_VLAN 0xffff
uint16_t next_hop_vlan(const char *netif);

#endif
