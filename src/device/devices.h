/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of this process: made when they are first asked for, kept up to date with their interfaces, never freed.
 * `devices_lock` guards the table. */
#ifndef UROCE_DEVICE_DEVICES_H
#define UROCE_DEVICE_DEVICES_H

#include "base/lock.h"
#include "device/device.h"
#include "link/netif.h"

extern struct lock devices_lock;

/* Reads the interfaces again and calls report() for each device that changed (`changes`: enum device_change). */
void devices_refresh(void (*report)(struct device *d, unsigned changes));

/* What a device is made of. */
struct origin {
	const struct netif *netif; /* of a device with one address: what netif_use_address() gave */
	const char *name;	   /* NULL: uroceN */
	union ibv_gid address;	   /* zeros: all of the interface */
	int node;		   /* -1: that of the interface */
};

/* Finds the device, up to date; makes it if there is none. NULL: there are DEVICE_LIMIT, or no memory. */
struct device *device_for(const struct origin *o) REQUIRES(devices_lock);
/* Whether DEVICE_LIMIT have been made. */
bool devices_are_full(void) REQUIRES(devices_lock);

/* Whether the address is one of the interface's; loopback has all of its networks. */
bool netif_has(const struct netif *n, const union ibv_gid *address);
/* The interface as a device with this address alone sees it. */
struct netif netif_use_address(const struct netif *n, const union ibv_gid *address);

#endif
