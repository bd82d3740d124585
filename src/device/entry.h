/* SPDX-License-Identifier: BSD-2-Clause */
/* An entry of UROCE_DEVICES: INTERFACE[=NAME] or ADDRESS[..LAST][=NAME], with [@NODE[..LAST]] behind NAME. Parsed
 * without a look at the interfaces. */
#ifndef UROCE_DEVICE_ENTRY_H
#define UROCE_DEVICE_ENTRY_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define ENTRY_NODES 1024 /* max NUMA nodes of Linux */

struct device_entry {
	char interface[IF_NAMESIZE]; /* empty: addresses are given */
	char name[IBV_SYSFS_NAME_MAX];
	bool named;	     /* a name is given */
	union ibv_gid first; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t devices;    /* one per address; 1 for an interface */
	int node, last_node; /* -1: not given */
};

/* Parses an entry. NULL, or the reason why it is wrong. `most`: max devices of the entry. */
const char *entry_parse(const char *text, uint32_t most, struct device_entry *e);

/* Address, NUMA node and name of device number `index` of the entry. The number at the end of e->name counts up. */
union ibv_gid entry_address(const struct device_entry *e, uint32_t index);
int entry_node(const struct device_entry *e, uint32_t index);
void entry_name(const struct device_entry *e, uint32_t index, char name[IBV_SYSFS_NAME_MAX]);

#endif
