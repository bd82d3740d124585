/* SPDX-License-Identifier: BSD-2-Clause */
/* An entry of UROCE_DEVICES: INTERFACE[=NAME] or ADDRESS[..LAST][=NAME], with [@NODE[..LAST]] behind NAME. Values only:
 * whether there is such an interface or address is for device.c to see. */
#ifndef UROCE_DEVICE_ENTRY_H
#define UROCE_DEVICE_ENTRY_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define ENTRY_NODES 1024 /* NUMA nodes that Linux can have */

struct device_entry {
	char interface[IF_NAMESIZE]; /* empty: the entry has addresses */
	char name[IBV_SYSFS_NAME_MAX];
	bool named;	     /* ... is given */
	union ibv_gid first; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t devices;    /* one for each address; 1 for an interface */
	int node, last_node; /* -1: not given */
};

/* NULL, or what is wrong with it. `most`: devices that it may give. */
const char *entry_parse(const char *text, uint32_t most, struct device_entry *e);

/* The n-th device's address, its NUMA node, and its name: the number at the end of e->name counts up. */
union ibv_gid entry_address(const struct device_entry *e, uint32_t n);
int entry_node(const struct device_entry *e, uint32_t n);
void entry_name(const struct device_entry *e, uint32_t n, char name[IBV_SYSFS_NAME_MAX]);

#endif
