/* SPDX-License-Identifier: BSD-2-Clause */
/* Choice of devices by UROCE_DEVICES. */

#include "device/device_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "device/device.h"
#include "device/devices.h"
#include "device/entry.h"
#include "device/front.h"
#include "device/monitor.h"
#include "link/netif.h"

static bool usable(const struct netif *netif)
{
	return netif->up && netif->addresses;
}

/* Writes the devices of all usable interfaces to `out`. Returns their number, or -ENOMEM. */
static int choose_all(const struct netif *netif, int count, struct device **out) REQUIRES(devices_lock)
{
	int chosen = 0;

	for (int i = 0; i < count && chosen < DEVICE_LIMIT; i++) {
		struct device *d;

		if (!usable(&netif[i]))
			continue;
		d = device_for(&(struct origin){.netif = &netif[i], .node = -1});
		if (!d && !devices_are_full())
			return -ENOMEM;
		if (d)
			out[chosen++] = d;
	}
	return chosen;
}

/* Writes the names of the usable interfaces, such as "lo eth0". */
static void usable_names(const struct netif *netif, int count, char *names, size_t room)
{
	size_t length = 0;

	*names = 0;
	for (int i = 0; i < count && length < room; i++)
		if (usable(&netif[i]))
			length += (size_t)snprintf(names + length, room - length, "%s%s", length ? " " : "",
						   netif[i].name);
}

/* Warns about an entry of UROCE_DEVICES, once per entry. */
static void entry_complain(const char *entry, const char *why, const struct netif *netif, int count)
	REQUIRES(devices_lock)
{
	static char *told[DEVICE_LIMIT];
	static int tolds;
	char names[512];

	for (int i = 0; i < tolds; i++)
		if (told[i] && strcmp(told[i], entry) == 0)
			return;
	if (tolds < DEVICE_LIMIT)
		told[tolds++] = strdup(entry);
	usable_names(netif, count, names, sizeof(names));
	log_warn("UROCE_DEVICES: entry '%s' gives no device: %s; usable interfaces: %s", entry, why,
		 *names ? names : "none");
}

static const char *interface_objection(const struct netif *netif)
{
	if (!netif)
		return "there is no such network interface (see: ip link)";
	if (!netif->up)
		return "the interface is down (try: ip link set INTERFACE up)";
	if (!netif->addresses)
		return "the interface has no IP address (try: ip addr add ADDRESS dev INTERFACE)";
	return NULL;
}

static const char *address_objection(const struct netif *netif)
{
	if (!netif)
		return "no network interface has this address (see: ip addr; 127.0.0.1 to 127.255.255.254 need "
		       "nothing)";
	return netif->up ? NULL : "the interface with this address is down (try: ip link set INTERFACE up)";
}

static const struct netif *netif_named(const char *name, const struct netif *netif, int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(netif[i].name, name) == 0)
			return &netif[i];
	return NULL;
}

static const struct netif *netif_with(const union ibv_gid *address, const struct netif *netif, int count)
{
	for (int i = 0; i < count; i++)
		if (netif_has(&netif[i], address))
			return &netif[i];
	return NULL;
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
	int error; /* -errno, or 0 */
};

static void choose(struct choice *c, const char *entry, const struct origin *o) REQUIRES(devices_lock)
{
	struct device *d = c->chosen < DEVICE_LIMIT ? device_for(o) : NULL;

	if (!d && !devices_are_full())
		c->error = -ENOMEM;
	if (d && chosen_before(c->out, c->chosen, d))
		entry_complain(entry, "an earlier entry has this device name already", c->netif, c->netifs);
	else if (d)
		c->out[c->chosen++] = d;
}

/* NULL, or the reason why the entry gives no device, or too few. */
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
		one = netif_use_address(n, &o.address);
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

static int choose_named(const char *setting, const struct netif *netif, int count, struct device **out)
	REQUIRES(devices_lock)
{
	struct choice c = {.netif = netif, .netifs = count, .out = out};
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
