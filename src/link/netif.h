/* SPDX-License-Identifier: BSD-2-Clause */
/* The network interfaces of this namespace, their addresses and their state, as rtnetlink tells them. Values
 * are copies: they are true at the moment of the call. Any thread may call. */
#ifndef UROCE_NETIF_H
#define UROCE_NETIF_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/address.h"

#define NETIF_ADDRESSES 64 /* an interface's further addresses are not used */

struct netif {
	int index;
	char name[IF_NAMESIZE];
	bool up;      /* set up by its administrator */
	bool running; /* ... and there is a carrier */
	bool loopback;
	bool default_route; /* the best default route leaves here */
	uint32_t mtu;	    /* bytes */
	uint8_t mac[6];
	uint32_t addresses; /* IPv4 (as ::ffff:a.b.c.d) first, then global IPv6, then link-local */
	union ibv_gid address[NETIF_ADDRESSES];
};

/* All interfaces, in an array that the caller frees: the default route's first, loopback last, else by index.
 * Returns their number, or -errno. */
int netif_list(struct netif **list);

/* The interface that has this address, 0 if none has: what a socket needs to use an IPv6 link-local one. */
int netif_of_address(const union ibv_gid *address);

/* Mb/s as the driver says; 0 if it does not. */
uint32_t netif_speed(const char *name);

/* A non-blocking socket that becomes readable when an interface or an address changes; or -errno. */
int netif_watch(void);
/* Empties it; true if something was there. */
bool netif_changed(int watch);

static inline bool address_is_ipv4(const union ibv_gid *a)
{
	return gid_is_ipv4(a->raw);
}

/* The loopback interface has all of 127.0.0.0/8, though it lists only one address of it. */
static inline bool address_is_loopback(const union ibv_gid *a)
{
	return address_is_ipv4(a) && a->raw[12] == 127;
}

static inline bool address_is_link_local(const union ibv_gid *a)
{
	return a->raw[0] == 0xfe && (a->raw[1] & 0xc0) == 0x80;
}

/* A multicast GID that stands for an IPv4 group: ffXX::ffff:a.b.c.d, as programs write it. */
static inline bool address_embeds_group(const union ibv_gid *a)
{
	static const uint8_t middle[10] = {[8] = 0xff, [9] = 0xff};

	return a->raw[0] == 0xff && memcmp(a->raw + 2, middle, sizeof(middle)) == 0 && (a->raw[12] & 0xf0) == 0xe0;
}

/* That group, as ::ffff:a.b.c.d. */
static inline union ibv_gid address_of_group(const union ibv_gid *a)
{
	union ibv_gid group = *a;

	group.raw[0] = group.raw[1] = 0;
	return group;
}

static inline bool address_is_multicast(const union ibv_gid *a)
{
	return a->raw[0] == 0xff || (address_is_ipv4(a) && (a->raw[12] & 0xf0) == 0xe0);
}

#endif
