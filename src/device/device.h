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
	int number;		/* 1 .. : ibv_get_device_index() */
	bool renamed;		/* UROCE_DEVICES gave the name */
	int netif_index;
	char netif_name[IF_NAMESIZE];
	union ibv_gid address; /* the only one that it has of its interface; zeros: it has all of them */
	int node;	       /* NUMA node that UROCE_DEVICES gave; -1: that of the interface */
	__be64 guid;
	int gid_order[DEVICE_GIDS]; /* UROCE_GID_ORDER: enum gid_family */
	int gids_ordered;	    /* of these */

	/* Objects of this process: adapter_take(). */
	_Atomic uint32_t qps, regions;

	struct lock lock;
	bool gone GUARDED_BY(&lock); /* the interface is removed; it may come back with the same index */
	bool running GUARDED_BY(&lock);
	uint8_t mac[6] GUARDED_BY(&lock);
	uint32_t mtu GUARDED_BY(&lock);			  /* of the interface; bytes */
	union ibv_gid gid[DEVICE_GIDS] GUARDED_BY(&lock); /* all zeros: empty, since the address was removed */
};
static_assert(offsetof(struct device, provider) == 664, "libmlx5: verbs_device.ops follows ibv_device");

enum device_change {
	DEVICE_GID_CHANGED = 1,
	DEVICE_PORT_UP = 2,
	DEVICE_PORT_DOWN = 4,
	DEVICE_MAC_CHANGED = 8,
	DEVICE_GONE = 16, /* no other bit is set with it */
};

bool device_is_gone(struct device *d) EXCLUDES(d->lock);

/* Whether it stands for one address of its interface. */
bool device_has_one_address(const struct device *d);

/* The largest path MTU that fits the interface. */
enum ibv_mtu device_active_mtu(struct device *d) EXCLUDES(d->lock);

/* The MTU of the interface, in bytes. */
uint32_t device_interface_mtu(struct device *d) EXCLUDES(d->lock);

/* The MAC address of the interface. */
void device_mac(struct device *d, uint8_t mac[6]) EXCLUDES(d->lock);

/* False if the entry does not exist or is empty. */
bool device_gid(struct device *d, uint32_t index, union ibv_gid *gid) EXCLUDES(d->lock);

/* What programs are told: on InfiniBand a port has one GID, fe80:: and the GUID. */
bool device_port_gid(struct device *d, uint32_t index, union ibv_gid *gid) EXCLUDES(d->lock);

/* On InfiniBand, the address for which such a GID stands: the GUID of a device with one address contains it. False: it
 * is none. */
bool device_address_of_port_gid(const union ibv_gid *gid, union ibv_gid *address);

/* The first GID of this family, which is the default for a program that does not name one. Returns its index, or -1. */
int device_first_gid(struct device *d, bool ipv4, union ibv_gid *gid) EXCLUDES(d->lock);

/* The index of this GID, or -1. */
int device_find_gid(struct device *d, const union ibv_gid *gid) EXCLUDES(d->lock);

/* A RoCE port has no LID, but some programs exchange LIDs and do not use GIDs. So the LID is the low half of the port's
 * first IPv4 address, and path.c finds the address from the LID. Never 0. */
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
