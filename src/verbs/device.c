/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices and the device list: see device.h. */
#include "verbs/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "base/config.h"
#include "base/config_warn.h"
#include "base/log.h"
#include "base/msan.h"
#include "base/refused.h"
#include "fault/inject.h"
#include "verbs/adapter.h"
#include "verbs/context.h"
#include "verbs/entry.h"
#include "verbs/fork.h"
#include "verbs/hint.h"
#include "verbs/link_state.h"

struct lock devices_lock;
static struct device *devices[DEVICE_LIMIT] GUARDED_BY(devices_lock);
static int device_count GUARDED_BY(devices_lock);

static const union ibv_gid no_gid;

static bool device_gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

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

static const union ibv_gid *gid_of_family(const struct netif *n, enum gid_family family)
{
	for (uint32_t i = 0; i < n->addresses; i++)
		if (gid_family(&n->address[i]) == family)
			return &n->address[i];
	return NULL;
}

/* Orders the GIDs by UROCE_GID_ORDER, such as "local,local,ipv4,ipv4", for programs with a fixed GID index of an
 * adapter. One address may have several entries. */
static bool gids_put_in_order(struct device *d, const struct netif *n) REQUIRES(d->lock)
{
	bool changed = false;

	for (int i = 0; i < d->gids_ordered; i++) {
		const union ibv_gid *gid = gid_of_family(n, (enum gid_family)d->gid_order[i]);

		if (!gid || !device_gid_equal(&d->gid[i], &no_gid))
			continue;
		d->gid[i] = *gid;
		changed = true;
	}
	return changed;
}

/* A remaining address keeps its index, a removed one leaves an empty entry, a new one takes the first empty entry. So
 * an index in use always means the same address, as in the kernel. */
static bool update_gids(struct device *d, const struct netif *n) REQUIRES(d->lock)
{
	bool changed = false;

	for (int i = 0; i < DEVICE_GIDS; i++) {
		if (!device_gid_equal(&d->gid[i], &no_gid) && !gid_listed(&d->gid[i], n->address, n->addresses)) {
			d->gid[i] = no_gid;
			changed = true;
		}
	}
	changed |= gids_put_in_order(d, n);
	for (uint32_t i = 0; i < n->addresses; i++)
		if (!gid_listed(&n->address[i], d->gid, DEVICE_GIDS))
			changed |= gid_add(d, &n->address[i]);
	return changed;
}

/* Updates a device; n->index 0: the interface is removed. Returns a mask of enum device_change. */
static unsigned update(struct device *d, const struct netif *n) EXCLUDES(d->lock)
{
	static const struct netif no_addresses;
	const char *name = d->base.name;
	bool gone = !n->index || inject_is(DO_FATAL, name);
	bool running = n->running && !link_is_down(name) && !inject_is(DO_PORT_DOWN, name);
	unsigned changes = 0;

	lock_take(&d->lock);
	if (update_gids(d, inject_is(DO_GID_GONE, name) ? &no_addresses : n))
		changes |= DEVICE_GID_CHANGED;
	if (d->running != running)
		changes |= running ? DEVICE_PORT_UP : DEVICE_PORT_DOWN;
	if (memcmp(d->mac, n->mac, sizeof(d->mac)) != 0)
		changes |= DEVICE_MAC_CHANGED;
	if (gone)
		changes = d->gone ? 0 : DEVICE_GONE;
	d->gone = gone;
	d->running = running;
	d->mtu = n->mtu;
	memcpy(d->mac, n->mac, sizeof(d->mac));
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

/* What a device is made of. */
struct origin {
	const struct netif *netif; /* of a device with one address: what use_address() gave */
	const char *name;	   /* NULL: uroceN */
	union ibv_gid address;	   /* zeros: all of the interface */
	int node;		   /* -1: that of the interface */
};

/* Devices of one interface have GUIDs that differ. */
static __be64 guid_of(const struct origin *o)
{
	const uint8_t *a = o->address.raw;

	if (device_gid_equal(&o->address, &no_gid) && adapter_is_infiniband() && address_is_ipv4(&o->netif->address[0]))
		a = o->netif->address[0].raw; /* so that the GUID leads to it: device_address_of_port_gid() */
	else if (device_gid_equal(&o->address, &no_gid))
		return guid_of_mac(o->netif->mac);
	return guid_of_mac((const uint8_t[6]){2, 0, a[12], a[13], a[14], a[15]});
}

static struct device *device_make(const struct origin *o) REQUIRES(devices_lock)
{
	struct device *d = device_count < DEVICE_LIMIT ? calloc(1, sizeof(*d)) : NULL;

	if (!d)
		return NULL;
	/* here, as the helper must not read the environment, which the program may change meanwhile */
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

/* Finds the device, up to date; creates it if there is none. */
static struct device *device_for(const struct origin *o) REQUIRES(devices_lock)
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

static bool usable(const struct netif *n)
{
	return n->up && n->addresses;
}

/* Writes the devices of all usable interfaces to `out`. Returns their number, or -ENOMEM. */
static int choose_all(const struct netif *n, int count, struct device **out) REQUIRES(devices_lock)
{
	int chosen = 0;

	for (int i = 0; i < count && chosen < DEVICE_LIMIT; i++) {
		struct device *d;

		if (!usable(&n[i]))
			continue;
		d = device_for(&(struct origin){.netif = &n[i], .node = -1});
		if (!d && device_count < DEVICE_LIMIT)
			return -ENOMEM;
		if (d)
			out[chosen++] = d;
	}
	return chosen;
}

/* Writes the names of the usable interfaces, such as "lo eth0". */
static void usable_names(const struct netif *n, int count, char *names, size_t room)
{
	size_t length = 0;

	*names = 0;
	for (int i = 0; i < count && length < room; i++)
		if (usable(&n[i]))
			length += (size_t)snprintf(names + length, room - length, "%s%s", length ? " " : "", n[i].name);
}

/* Warns about an entry of UROCE_DEVICES, once per entry. */
static void entry_complain(const char *entry, const char *why, const struct netif *n, int count) REQUIRES(devices_lock)
{
	static char *told[DEVICE_LIMIT];
	static int tolds;
	char names[512];

	for (int i = 0; i < tolds; i++)
		if (told[i] && strcmp(told[i], entry) == 0)
			return;
	if (tolds < DEVICE_LIMIT)
		told[tolds++] = strdup(entry);
	usable_names(n, count, names, sizeof(names));
	log_warn("UROCE_DEVICES: entry '%s' gives no device: %s; usable interfaces: %s", entry, why,
		 *names ? names : "none");
}

static const char *interface_objection(const struct netif *n)
{
	if (!n)
		return "there is no such network interface (see: ip link)";
	if (!n->up)
		return "the interface is down (try: ip link set INTERFACE up)";
	if (!n->addresses)
		return "the interface has no IP address (try: ip addr add ADDRESS dev INTERFACE)";
	return NULL;
}

static const char *address_objection(const struct netif *n)
{
	if (!n)
		return "no network interface has this address (see: ip addr; 127.0.0.1 to 127.255.255.254 need "
		       "nothing)";
	return n->up ? NULL : "the interface with this address is down (try: ip link set INTERFACE up)";
}

static const struct netif *netif_named(const char *name, const struct netif *n, int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(n[i].name, name) == 0)
			return &n[i];
	return NULL;
}

static bool netif_has(const struct netif *n, const union ibv_gid *address)
{
	return gid_listed(address, n->address, n->addresses) || (n->loopback && address_is_loopback(address));
}

static const struct netif *netif_with(const union ibv_gid *address, const struct netif *n, int count)
{
	for (int i = 0; i < count; i++)
		if (netif_has(&n[i], address))
			return &n[i];
	return NULL;
}

/* The interface as a device with this address alone sees it. Loopback has no MAC address, but such devices may be
 * many. */
static struct netif use_address(const struct netif *n, const union ibv_gid *address)
{
	struct netif one = *n;

	one.addresses = netif_has(n, address);
	one.address[0] = *address;
	if (n->loopback)
		memcpy(one.mac,
		       (const uint8_t[6]){2, 0, address->raw[12], address->raw[13], address->raw[14], address->raw[15]},
		       sizeof(one.mac));
	return one;
}

static bool chosen_before(struct device **out, int count, const struct device *d)
{
	for (int i = 0; i < count; i++)
		if (strcmp(out[i]->base.name, d->base.name) == 0)
			return true;
	return false;
}

struct choice {
	const struct netif *netif; /* all interfaces */
	int netifs;
	struct device **out;
	int chosen;
	int error; /* or 0 */
};

static void choose(struct choice *c, const char *entry, const struct origin *o) REQUIRES(devices_lock)
{
	struct device *d = c->chosen < DEVICE_LIMIT ? device_for(o) : NULL;

	if (!d && device_count < DEVICE_LIMIT)
		c->error = -ENOMEM;
	if (d && chosen_before(c->out, c->chosen, d))
		entry_complain(entry, "an earlier entry has this device name already", c->netif, c->netifs);
	else if (d)
		c->out[c->chosen++] = d;
}

/* NULL, or why the entry gives no device, or fewer than it says. */
static const char *choose_addresses(struct choice *c, const char *entry, const struct device_entry *e)
	REQUIRES(devices_lock)
{
	char name[IBV_SYSFS_NAME_MAX];
	const char *objection = NULL;

	for (uint32_t i = 0; i < e->devices && !objection; i++) {
		struct origin o = {.address = entry_address(e, i), .node = entry_node(e, i)};
		const struct netif *n = netif_with(&o.address, c->netif, c->netifs);
		struct netif one;

		objection = address_objection(n);
		if (objection)
			break;
		one = use_address(n, &o.address);
		entry_name(e, i, name);
		o.netif = &one;
		o.name = e->named ? name : NULL;
		choose(c, entry, &o);
	}
	return objection;
}

static void choose_entry(struct choice *c, const char *entry) REQUIRES(devices_lock)
{
	struct device_entry e;
	const char *why = entry_parse(entry, DEVICE_LIMIT, &e);
	struct origin o = {.name = e.named ? e.name : NULL, .node = e.node};

	if (!why && !*e.interface) {
		why = choose_addresses(c, entry, &e);
	} else if (!why) {
		o.netif = netif_named(e.interface, c->netif, c->netifs);
		why = interface_objection(o.netif);
		if (!why)
			choose(c, entry, &o);
	}
	if (why)
		entry_complain(entry, why, c->netif, c->netifs);
}

static int choose_named(const char *setting, const struct netif *n, int count, struct device **out)
	REQUIRES(devices_lock)
{
	struct choice c = {.netif = n, .netifs = count, .out = out};
	char *copy = strdup(setting), *rest = copy, *entry;

	if (!copy)
		return -ENOMEM;
	while ((entry = strsep(&rest, ",")))
		if (*entry)
			choose_entry(&c, entry);
	free(copy);
	return c.error ?: c.chosen;
}

int devices_list(struct device **list)
{
	const char *setting = config_string(CONFIG_DEVICES);
	struct netif *n;
	int count = netif_list(&n);

	if (count < 0)
		return count;
	monitor_look();
	lock_take(&devices_lock);
	count = setting ? choose_named(setting, n, count, list) : choose_all(n, count, list);
	lock_drop(&devices_lock);
	free(n);
	return count;
}

struct device *device_named(const char *name)
{
	struct device *list[DEVICE_LIMIT];
	int count = devices_list(list);

	for (int i = 0; i < count; i++)
		if (strcmp(list[i]->base.name, name) == 0)
			return list[i];
	return NULL;
}

/* Without a usable interface the list is empty, as the man page says for no devices. ENOSYS would mean that the kernel
 * has no RDMA support, which is not needed here. */
PUBLIC struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct device **list = calloc(DEVICE_LIMIT + 1, sizeof(*list));
	int count;

	config_warn_once();
	count = list ? devices_list(list) : -ENOMEM;
	if (num_devices)
		*num_devices = max_of(count, 0);
	msan_wrote(num_devices, sizeof(*num_devices));
	if (count >= 0)
		hint_missing(list, count);
	if (count < 0) {
		free(list);
		cause_shortage("ibv_get_device_list", -count);
		refused_say("there is no list of devices");
		return fail_null(-count);
	}
	return (struct ibv_device **)list;
}

PUBLIC void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

PUBLIC const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

PUBLIC int ibv_get_device_index(struct ibv_device *device)
{
	return device_of(device)->number;
}

PUBLIC __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device_of(device)->guid;
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
			one = use_address(now, &d->address);
			now = &one;
		}
		changes = update(d, now);
		if (changes)
			report(d, changes);
	}
	free(n);
}

/* Each writer of a device holds one of the process-wide locks too, so at a fork only readers can hold a device's lock,
 * and the data is consistent. */
void devices_unlock(void)
{
	for (int i = 0; i < device_count; i++)
		devices[i]->lock = (struct lock){0};
}

enum ibv_mtu device_active_mtu(struct device *d)
{
	/* IPv6, UDP, BTH, the longest extended headers, ICRC: the same overhead as in the kernel's rxe, so that both
	 * ends of a cable compute the same MTU */
	enum { OVERHEAD = 40 + 8 + 12 + 4 + 28 + 4 };
	enum ibv_mtu mtu = IBV_MTU_4096;

	lock_take(&d->lock);
	while (mtu > IBV_MTU_256 && (128u << mtu) + OVERHEAD > d->mtu)
		mtu--;
	lock_drop(&d->lock);
	return mtu;
}

uint32_t device_interface_mtu(struct device *d)
{
	uint32_t mtu;

	lock_take(&d->lock);
	mtu = d->mtu;
	lock_drop(&d->lock);
	return mtu;
}

void device_mac(struct device *d, uint8_t mac[6])
{
	lock_take(&d->lock);
	memcpy(mac, d->mac, sizeof(d->mac));
	lock_drop(&d->lock);
}

bool device_has_one_address(const struct device *d)
{
	return !device_gid_equal(&d->address, &no_gid);
}

bool device_is_gone(struct device *d)
{
	bool gone;

	lock_take(&d->lock);
	gone = d->gone;
	lock_drop(&d->lock);
	return gone;
}

bool device_gid(struct device *d, uint32_t index, union ibv_gid *gid)
{
	if (index >= DEVICE_GIDS)
		return false;
	lock_take(&d->lock);
	*gid = d->gid[index];
	lock_drop(&d->lock);
	return !device_gid_equal(gid, &no_gid);
}

bool device_port_gid(struct device *d, uint32_t index, union ibv_gid *gid)
{
	if (!adapter_is_infiniband())
		return device_gid(d, index, gid);
	*gid = no_gid;
	if (index)
		return false;
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	memcpy(gid->raw + 8, &d->guid, sizeof(d->guid));
	return true;
}

bool device_address_of_port_gid(const union ibv_gid *gid, union ibv_gid *address)
{
	const uint8_t *g = gid->raw;
	static const uint8_t prefix[10] = {0xfe, 0x80};

	if (!adapter_is_infiniband() || memcmp(g, prefix, sizeof(prefix)) != 0 || g[11] != 0xff || g[12] != 0xfe)
		return false;
	*address = (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, g[10], g[13], g[14], g[15]}};
	return true;
}

int device_first_gid(struct device *d, bool ipv4, union ibv_gid *gid)
{
	for (uint32_t i = 0; i < DEVICE_GIDS; i++)
		if (device_gid(d, i, gid) && address_is_ipv4(gid) == ipv4)
			return (int)i;
	return -1;
}

int device_find_gid(struct device *d, const union ibv_gid *gid)
{
	union ibv_gid have;

	for (uint32_t i = 0; i < DEVICE_GIDS; i++)
		if (device_gid(d, i, &have) && device_gid_equal(&have, gid))
			return (int)i;
	return -1;
}

uint16_t device_lid(struct device *d)
{
	union ibv_gid gid;

	if (device_first_gid(d, true, &gid) < 0)
		return 1;
	return (uint16_t)(gid.raw[14] << 8 | gid.raw[15]) ?: 1;
}
