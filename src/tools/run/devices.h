/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs will see, through the library's own verbs. */
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

/* All devices into an array that the caller frees; their number, or -1 and *why. */
int devices_view(struct device_view **views, const char **why);

/* Prints them on one line of that many columns: name, interface and first address of each; those that do not fit are
 * counted. */
void devices_print_line(FILE *to, const struct device_view *views, int count, unsigned columns);

/* "10.1.2.3" or an IPv6 address, into a buffer that the next call uses again. */
const char *gid_text(const union ibv_gid *gid);

/* Whether UROCE_LINK=packet can be had, as far as the process is concerned. */
bool frames_are_allowed(void);

/* What ip(8) says of the interface: bytes, 0 if it is not there. */
unsigned interface_mtu(const char *name);

#endif
