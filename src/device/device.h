/* SPDX-License-Identifier: BSD-2-Clause */
/* A device: one network interface, or one address of it, as the application sees it. Devices are created when the
 * device list is read, and are never freed, so a pointer to a device stays valid. `lock` guards the fields below it. */
#ifndef UROCE_DEVICE_DEVICE_H
#define UROCE_DEVICE_DEVICE_H

#include <infiniband/verbs.h>
#include <string.h>

#include "base/base.h"
#include "base/lock.h"
#include "link/netif.h"

#define DEVICE_GIDS	  NETIF_ADDRESSES
#define DEVICE_LIMIT	  256
#define INFINIBAND_GIDS	  8
#define INFINIBAND_PKEYS  128
#define INFINIBAND_SM_LID 1

struct device {
	struct ibv_device base; /* the application's handle; must be first */
	void *provider;		/* NULL: libmlx5 and libefa read this field */
	int number;		/* from 1: ibv_get_device_index() */
	bool renamed;		/* UROCE_DEVICES gave the name */
	int netif_index;
	char netif_name[IF_NAMESIZE];
	union ibv_gid address; /* the device's only address of its interface; zeros: all of them */
	int node;	       /* NUMA node given by UROCE_DEVICES; -1: the interface's */
	__be64 guid;
	int gid_order[DEVICE_GIDS]; /* UROCE_GID_ORDER: enum gid_family */
	int gids_ordered;	    /* number of entries in gid_order */

	/* Objects of this process: adapter_take(). */
	_Atomic uint32_t qps, regions;

	struct lock lock;
	bool gone GUARDED_BY(&lock); /* the interface is removed; it may come back with the same index */
	bool running GUARDED_BY(&lock);
	uint8_t mac[6] GUARDED_BY(&lock);
	uint32_t mtu GUARDED_BY(&lock);			  /* bytes; of the interface */
	union ibv_gid gid[DEVICE_GIDS] GUARDED_BY(&lock); /* all zeros: empty, as the address was removed */
};
static_assert(offsetof(struct device, provider) == 664, "libmlx5: verbs_device.ops follows ibv_device");

enum device_change {
	DEVICE_GID_CHANGED = 1,
	DEVICE_PORT_UP = 2,
	DEVICE_PORT_DOWN = 4,
	DEVICE_MAC_CHANGED = 8,
	DEVICE_GONE = 16, /* set without any other bit */
};

bool device_is_gone(struct device *d) EXCLUDES(d->lock);

/* True if the device stands for one address of its interface. */
bool device_has_one_address(const struct device *d);

/* The largest path MTU that fits the interface. */
enum ibv_mtu device_active_mtu(struct device *d) EXCLUDES(d->lock);

/* MTU of the interface, in bytes. */
uint32_t device_interface_mtu(struct device *d) EXCLUDES(d->lock);

/* MAC address of the interface. */
void device_mac(struct device *d, uint8_t mac[6]) EXCLUDES(d->lock);

/* Gets entry `index` of the GID table. False if there is none or it is empty. */
bool device_gid(struct device *d, uint32_t index, union ibv_gid *gid) EXCLUDES(d->lock);

/* GID of the port for programs: on InfiniBand a port has one, fe80:: and the GUID. False as device_gid(). */
bool device_port_gid(struct device *d, uint32_t index, union ibv_gid *gid) EXCLUDES(d->lock);

/* Address that an InfiniBand port's GID stands for: the GUID of a device with one address contains it. False if
 * there is none. */
bool device_address_of_port_gid(const union ibv_gid *gid, union ibv_gid *address);

/* Gets the first GID of the family, the default for programs that name none. Returns its index, or -1. */
int device_first_gid(struct device *d, bool ipv4, union ibv_gid *gid) EXCLUDES(d->lock);

/* Index of the GID, or -1. */
int device_find_gid(struct device *d, const union ibv_gid *gid) EXCLUDES(d->lock);

/* LID for programs that exchange LIDs, which RoCE ports lack, and no GIDs: the low half of the port's first IPv4
 * address, from which path.c finds the address. Never 0. */
uint16_t device_lid(struct device *d) EXCLUDES(d->lock);

static inline bool device_gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static inline struct device *device_of(struct ibv_device *d)
{
	return (struct device *)d;
}

#endif
