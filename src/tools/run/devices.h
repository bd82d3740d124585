/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices that programs will see, through the library's own verbs. */
#ifndef UROCE_TOOLS_RUN_DEVICES_H
#define UROCE_TOOLS_RUN_DEVICES_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define DEVICE_GIDS 256

struct device_view {
	char name[IBV_SYSFS_NAME_MAX];
	char interface[IF_NAMESIZE];
	unsigned interface_mtu; /* bytes, 0: unknown */
	struct ibv_port_attr port;
	struct ibv_gid_entry gid[DEVICE_GIDS];
	int gids;
};

/* All devices, in an array that the caller frees. Returns their number, or -1 with *why. */
int devices_view(struct device_view **views, const char **why);

/* Prints the devices on one line of that many columns: name, interface and first address of each, and the number of
 * those that do not fit. */
void devices_print_line(FILE *to, const struct device_view *views, int count, unsigned columns);

/* Text of an address, in a buffer that the next call overwrites. */
const char *gid_text(const union ibv_gid *gid);

/* True if this process may use UROCE_LINK=packet. */
bool frames_are_allowed(void);

/* MTU of the interface in bytes, as ip(8) shows; 0 without such an interface. */
unsigned interface_mtu(const char *name);

#endif
