/* SPDX-License-Identifier: BSD-2-Clause */
/* A device: one network interface as the application sees it. Devices are made when somebody asks for the
 * list and live as long as the process, so a pointer to one is always good. `lock` guards all below it. */
#ifndef UROCE_DEVICE_H
#define UROCE_DEVICE_H

#include "base/lock.h"
#include "link/netif.h"
#include "verbs/front.h"

#define DEVICE_GIDS	 NETIF_ADDRESSES
#define DEVICE_LIMIT	 256
#define DEVICE_VENDOR_ID 0x025243 /* a locally administered OUI: this is nobody's hardware */
/* The part number is ours to choose. perftest looks at it alone, without the vendor, and lets only those that
 * it knows send inline; so it is one of them. */
#define DEVICE_PART_ID	4119
#define DEVICE_FIRMWARE "0.1.0"
#define DEVICE_BOARD_ID "uroce"

struct device {
	struct ibv_device base; /* what the application holds: first */
	void *provider;		/* NULL: libmlx5 and libefa look here for themselves */
	int number;		/* 1 .. : ibv_get_device_index() */
	bool renamed;		/* by UROCE_DEVICES */
	int netif_index;
	char netif_name[IF_NAMESIZE];
	__be64 guid;

	struct lock lock;
	bool gone GUARDED_BY(&lock); /* the interface is: it may come back, under the same index */
	bool running GUARDED_BY(&lock);
	uint8_t mac[6] GUARDED_BY(&lock);
	uint32_t mtu GUARDED_BY(&lock);			  /* of the interface, bytes */
	union ibv_gid gid[DEVICE_GIDS] GUARDED_BY(&lock); /* zeros: a hole, where an address has gone */
};
static_assert(offsetof(struct device, provider) == 664, "libmlx5: verbs_device.ops follows ibv_device");

enum device_change {
	DEVICE_GID_CHANGED = 1,
	DEVICE_PORT_UP = 2,
	DEVICE_PORT_DOWN = 4,
	DEVICE_MAC_CHANGED = 8,
	DEVICE_GONE = 16, /* then nothing else */
};

/* The devices that there are now, into an array of DEVICE_LIMIT. Their number, or -errno. */
int devices_list(struct device **list);

/* Reads the interfaces again and tells report() of every device that changed (enum device_change). */
void devices_refresh(void (*report)(struct device *d, unsigned changes));

bool device_is_gone(struct device *d) EXCLUDES(d->lock);

/* What ibv_query_port() says, but for fields that rdma-core 44 does not know. */
void device_port(struct device *d, struct ibv_port_attr *attr) EXCLUDES(d->lock);

/* The largest path MTU that fits the interface. */
enum ibv_mtu device_active_mtu(struct device *d) EXCLUDES(d->lock);

/* Of the interface, in bytes. */
uint32_t device_interface_mtu(struct device *d) EXCLUDES(d->lock);

/* The interface's. */
void device_mac(struct device *d, uint8_t mac[6]) EXCLUDES(d->lock);

/* False if there is no such entry or it is empty. */
bool device_gid(struct device *d, uint32_t index, union ibv_gid *gid) EXCLUDES(d->lock);

/* The first GID of that family: what a program gets that does not name one. Its index, or -1. */
int device_first_gid(struct device *d, bool ipv4, union ibv_gid *gid) EXCLUDES(d->lock);

/* The index of that GID, or -1. */
int device_find_gid(struct device *d, const union ibv_gid *gid) EXCLUDES(d->lock);

/* A RoCE port has no LID, but programs that know nothing of GIDs exchange LIDs. So a port reports the low
 * half of its first IPv4 address, and path.c finds the way back. Never 0. */
uint16_t device_lid(struct device *d) EXCLUDES(d->lock);

static inline struct device *device_of(struct ibv_device *d)
{
	return (struct device *)d;
}

#endif
