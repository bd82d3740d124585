/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of this process: created at first use, kept up to date with their interfaces, never freed.
 * `devices_lock` guards the table. */
#ifndef UROCE_DEVICE_DEVICES_H
#define UROCE_DEVICE_DEVICES_H

#include "base/lock.h"
#include "device/device.h"
#include "link/netif.h"

extern struct lock devices_lock;

/* Reads the interfaces again and calls report() for each device that changed (`changes`: enum device_change). */
void devices_refresh(void (*report)(struct device *d, unsigned changes));

/* Identity of a device. */
struct origin {
	const struct netif *netif; /* for a device with one address: from netif_use_address() */
	const char *name;	   /* NULL: uroceN */
	union ibv_gid address;	   /* zeros: all of the interface's */
	int node;		   /* -1: the interface's */
};

/* Finds or creates the device, up to date. NULL if there are DEVICE_LIMIT, or without memory. */
struct device *device_for(const struct origin *o) REQUIRES(devices_lock);
/* True if there are DEVICE_LIMIT devices. */
bool devices_are_full(void) REQUIRES(devices_lock);

/* True if the interface has the address; loopback has all of its networks. */
bool netif_has(const struct netif *netif, const union ibv_gid *address);
/* The interface reduced to one address. */
struct netif netif_use_address(const struct netif *netif, const union ibv_gid *address);

#endif
