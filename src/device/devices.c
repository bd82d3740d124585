/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of devices, and its updates. */

#include "device/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/lock.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/link_state.h"
#include "fault/inject.h"
#include "link/netif.h"

struct lock devices_lock = LOCK_RANKED(DEVICES);
static struct device *devices[DEVICE_LIMIT] GUARDED_BY(devices_lock);
static int device_count GUARDED_BY(devices_lock);

static const union ibv_gid no_gid;

static bool gid_listed(const union ibv_gid *gid, const union ibv_gid *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (device_gid_equal(&list[i], gid))
			return true;
	return false;
}

static bool gid_add(struct device *d, const union ibv_gid *gid) REQUIRES(d->lock)
{
	for (int i = 0; i < DEVICE_GIDS; i++) {
		if (device_gid_equal(&d->gid[i], &no_gid)) {
			d->gid[i] = *gid;
			return true;
		}
	}
	return false;
}

/* In the order of UROCE_GID_ORDER's words. */
enum gid_family {
	GID_IPV4,
	GID_IPV6,
	GID_LOCAL, /* IPv6, link-local */
};

static enum gid_family gid_family(const union ibv_gid *gid)
{
	if (address_is_ipv4(gid))
		return GID_IPV4;
	return address_is_link_local(gid) ? GID_LOCAL : GID_IPV6;
}

static const union ibv_gid *gid_of_family(const struct netif *netif, enum gid_family family)
{
	for (uint32_t i = 0; i < netif->addresses; i++)
		if (gid_family(&netif->address[i]) == family)
			return &netif->address[i];
	return NULL;
}

/* Orders the GIDs by UROCE_GID_ORDER, such as "local,local,ipv4,ipv4", for programs with a fixed GID index of an
 * adapter. One address may have several entries. */
static bool gids_put_in_order(struct device *d, const struct netif *netif) REQUIRES(d->lock)
{
	bool changed = false;

	for (int i = 0; i < d->gids_ordered; i++) {
		const union ibv_gid *gid = gid_of_family(netif, (enum gid_family)d->gid_order[i]);

		if (!gid || !device_gid_equal(&d->gid[i], &no_gid))
			continue;
		d->gid[i] = *gid;
		changed = true;
	}
	return changed;
}

/* A remaining address keeps its index, a removed one leaves an empty entry, a new one takes the first empty entry. So
 * an index in use always means the same address, as in the kernel. */
static bool update_gids(struct device *d, const struct netif *netif) REQUIRES(d->lock)
{
	bool changed = false;

	for (int i = 0; i < DEVICE_GIDS; i++) {
		if (!device_gid_equal(&d->gid[i], &no_gid) &&
		    !gid_listed(&d->gid[i], netif->address, netif->addresses)) {
			d->gid[i] = no_gid;
			changed = true;
		}
	}
	changed |= gids_put_in_order(d, netif);
	for (uint32_t i = 0; i < netif->addresses; i++)
		if (!gid_listed(&netif->address[i], d->gid, DEVICE_GIDS))
			changed |= gid_add(d, &netif->address[i]);
	return changed;
}

/* Updates a device; n->index 0: the interface is removed. Returns a mask of enum device_change. */
static unsigned update(struct device *d, const struct netif *netif) EXCLUDES(d->lock)
{
	static const struct netif no_addresses;
	const char *name = d->base.name;
	bool gone = !netif->index || inject_is(DO_FATAL, name);
	bool running = netif->running && !link_is_down(name) && !inject_is(DO_PORT_DOWN, name);
	unsigned changes = 0;

	lock_take(&d->lock);
	if (update_gids(d, inject_is(DO_GID_GONE, name) ? &no_addresses : netif))
		changes |= DEVICE_GID_CHANGED;
	if (d->running != running)
		changes |= running ? DEVICE_PORT_UP : DEVICE_PORT_DOWN;
	if (memcmp(d->mac, netif->mac, sizeof(d->mac)) != 0)
		changes |= DEVICE_MAC_CHANGED;
	if (gone)
		changes = d->gone ? 0 : DEVICE_GONE;
	d->gone = gone;
	d->running = running;
	d->mtu = netif->mtu;
	memcpy(d->mac, netif->mac, sizeof(d->mac));
	lock_drop(&d->lock);
	return changes;
}

/* The EUI-64 of a MAC address, built as IPv6 does. */
static __be64 guid_of_mac(const uint8_t m[6])
{
	uint8_t eui[8] = {m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
	__be64 guid;

	memcpy(&guid, eui, sizeof(guid));
	return guid;
}

static bool name_taken(const char *name) REQUIRES(devices_lock)
{
	for (int i = 0; i < device_count; i++)
		if (strcmp(devices[i]->base.name, name) == 0)
			return true;
	return false;
}

static void choose_name(char name[IBV_SYSFS_NAME_MAX]) REQUIRES(devices_lock)
{
	for (int i = 0;; i++) {
		snprintf(name, IBV_SYSFS_NAME_MAX, "%s%d", adapter()->device, i);
		if (!name_taken(name))
			return;
	}
}

/* GUID, which differs between devices of one interface. */
static __be64 guid_of(const struct origin *o)
{
	const uint8_t *a = o->address.raw;

	if (device_gid_equal(&o->address, &no_gid) && adapter_is_infiniband() && address_is_ipv4(&o->netif->address[0]))
		a = o->netif->address[0].raw; /* so that device_address_of_port_gid() finds it */
	else if (device_gid_equal(&o->address, &no_gid))
		return guid_of_mac(o->netif->mac);
	return guid_of_mac((const uint8_t[6]){2, 0, a[12], a[13], a[14], a[15]});
}

static struct device *device_make(const struct origin *o) REQUIRES(devices_lock)
{
	struct device *d = device_count < DEVICE_LIMIT ? calloc(1, sizeof(*d)) : NULL;

	if (!d)
		return NULL;
	lock_set_rank(&d->lock, RANK_DEVICE);
	/* not in the helper thread: the program may change the environment meanwhile */
	d->gids_ordered = config_words(CONFIG_GID_ORDER, d->gid_order, DEVICE_GIDS);
	d->base.node_type = IBV_NODE_CA;
	d->base.transport_type = IBV_TRANSPORT_IB;
	if (o->name)
		snprintf(d->base.name, sizeof(d->base.name), "%s", o->name);
	else
		choose_name(d->base.name);
	snprintf(d->base.dev_name, sizeof(d->base.dev_name), "uverbs%d", device_count);
	snprintf(d->base.dev_path, sizeof(d->base.dev_path), "/sys/class/infiniband_verbs/uverbs%d", device_count);
	snprintf(d->base.ibdev_path, sizeof(d->base.ibdev_path), "/sys/class/infiniband/%s", d->base.name);
	d->renamed = o->name;
	d->netif_index = o->netif->index;
	memcpy(d->netif_name, o->netif->name, sizeof(d->netif_name));
	d->address = o->address;
	d->node = o->node;
	d->guid = guid_of(o);
	memcpy(d->mac, o->netif->mac, sizeof(d->mac));
	devices[device_count++] = d;
	d->number = device_count;
	return d;
}

static bool is_made_of(const struct device *d, const struct origin *o)
{
	return d->netif_index == o->netif->index && strcmp(d->netif_name, o->netif->name) == 0 &&
	       device_gid_equal(&d->address, &o->address) && d->node == o->node &&
	       (o->name ? strcmp(d->base.name, o->name) == 0 : !d->renamed);
}

/* Finds or creates the device, up to date. */
struct device *device_for(const struct origin *o) REQUIRES(devices_lock)
{
	struct device *d = NULL;

	for (int i = 0; i < device_count && !d; i++)
		if (is_made_of(devices[i], o))
			d = devices[i];
	if (!d)
		d = device_make(o);
	if (d)
		update(d, o->netif);
	return d;
}

bool netif_has(const struct netif *netif, const union ibv_gid *address)
{
	return gid_listed(address, netif->address, netif->addresses) ||
	       (netif->loopback && address_is_loopback(address));
}

/* The interface reduced to one address. Loopback has no MAC address, so devices get one from the address. */
struct netif netif_use_address(const struct netif *netif, const union ibv_gid *address)
{
	struct netif one = *netif;

	one.addresses = netif_has(netif, address);
	one.address[0] = *address;
	if (netif->loopback)
		memcpy(one.mac,
		       (const uint8_t[6]){2, 0, address->raw[12], address->raw[13], address->raw[14], address->raw[15]},
		       sizeof(one.mac));
	return one;
}

static struct device *device_at(int i)
{
	struct device *d;

	lock_take(&devices_lock);
	d = i < device_count ? devices[i] : NULL;
	lock_drop(&devices_lock);
	return d;
}

void devices_refresh(void (*report)(struct device *d, unsigned changes))
{
	static const struct netif gone;
	struct netif *n;
	int count = netif_list(&n);
	struct device *d;

	if (count < 0)
		return;
	for (int i = 0; (d = device_at(i)); i++) { /* devices are never removed */
		const struct netif *now = &gone;
		struct netif one;
		unsigned changes;

		for (int k = 0; k < count; k++)
			if (n[k].index == d->netif_index)
				now = &n[k];
		if (now != &gone && device_has_one_address(d)) {
			one = netif_use_address(now, &d->address);
			now = &one;
		}
		changes = update(d, now);
		if (changes)
			report(d, changes);
	}
	free(n);
}

bool devices_are_full(void)
{
	return device_count == DEVICE_LIMIT;
}
