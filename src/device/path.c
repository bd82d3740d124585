/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversion of an address vector to a path. */
#include "device/path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/cause.h"
#include "base/log.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/front.h"
#include "link/netif.h"
#include "object/qp.h"

/* Logs the right GID index: a wrong index is the most frequent mistake, and EINVAL does not explain it. */
static void explain_gids(struct device *d, const struct ibv_global_route *grh)
{
	char own[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN], right[INET6_ADDRSTRLEN];
	bool is_ipv4 = address_is_ipv4(&grh->dgid);
	union ibv_gid gid, better;
	int index = device_first_gid(d, is_ipv4, &better);

	gid_print(grh->dgid.raw, peer);
	if (!device_gid(d, grh->sgid_index, &gid))
		snprintf(own, sizeof(own), "empty");
	else if (address_is_ipv4(&gid) != is_ipv4)
		gid_print(gid.raw, own);
	else
		return;
	if (index >= 0)
		log_warn("%s: GID index %u is %s, from where no path leads to %s: use GID index %d, %s (see uroce "
			 "devices, UROCE_GID_ORDER)",
			 d->base.name, grh->sgid_index, own, peer, index, gid_print(better.raw, right));
	else
		log_warn("%s: GID index %u is %s, from where no path leads to %s: the interface has no %s address",
			 d->base.name, grh->sgid_index, own, peer, is_ipv4 ? "IPv4" : "IPv6");
}

/* Resolves the LID of an address vector without GRH: the low half of an IPv4 address in the same /16 network as the
 * port's first one (device_lid()). Ethernet has no LIDs: there the GRH is required (rdma_check_ah_attr() of Linux). */
static int resolve_lid(struct device *d, uint16_t lid, struct path *p)
{
	int index = device_first_gid(d, true, &p->sgid);

	if (!adapter_is_infiniband())
		return because(CAUSE_PATH_NO_GRH, -EINVAL,
			       "%s: the address vector has no GRH (is_global is 0, dlid %u)", d->base.name, lid);
	if (lid == 0)
		return because(CAUSE_PATH_NO_LID, -EINVAL,
			       "%s: the address vector has neither GRH nor LID (is_global "
			       "and dlid are 0)",
			       d->base.name);
	if (index < 0)
		return -EINVAL;
	p->sgid_index = (uint8_t)index;
	p->dgid = p->sgid;
	p->dgid.raw[14] = (uint8_t)(lid >> 8);
	p->dgid.raw[15] = (uint8_t)lid;
	return 0;
}

static int resolve_gid(struct device *d, const struct ibv_global_route *grh, struct path *p)
{
	static const union ibv_gid none;
	union ibv_gid dgid = grh->dgid, from;
	enum { ANY = -1 }; /* the first of the destination's address family */
	int index = grh->sgid_index;
	bool ipv4;

	if (device_address_of_port_gid(&grh->dgid, &dgid)) {
		if (index != 0) /* the port's only GID */
			return -EINVAL;
		index = ANY;
	}
	if (memcmp(&dgid, &none, sizeof(none)) == 0)
		return -EINVAL;
	if (address_embeds_group(&dgid) &&
	    (index == ANY ? device_first_gid(d, true, &from) >= 0
			  : device_gid(d, (uint32_t)index, &from) && address_is_ipv4(&from)))
		dgid = address_of_group(&dgid);
	ipv4 = address_is_ipv4(&dgid);
	if (index == ANY) {
		index = device_first_gid(d, ipv4, &p->sgid);
		if (index < 0)
			return -EINVAL;
	} else if (!device_gid(d, (uint32_t)index, &p->sgid)) {
		return index < DEVICE_GIDS ? -ENODATA : -EINVAL; /* rdma_get_gid_attr() of Linux */
	} else if (address_is_ipv4(&p->sgid) != ipv4) {
		return -EINVAL;
	}
	p->dgid = dgid;
	p->sgid_index = (uint8_t)index;
	p->flow_label = grh->flow_label & 0xfffff;
	p->traffic_class = grh->traffic_class;
	p->hop_limit = grh->hop_limit;
	return 0;
}

int path_resolve(struct device *d, const struct ibv_ah_attr *av, struct path *p)
{
	/* hop limit that the kernel's rxe always sends: programs set 0 or 1 and expect routed packets */
	enum { HOP_LIMIT = 64 };
	int error;

	*p = (struct path){0};
	if (av->port_num != PORT)
		return -EINVAL;
	error = av->is_global ? resolve_gid(d, &av->grh, p) : resolve_lid(d, av->dlid, p);
	if (error && av->is_global)
		explain_gids(d, &av->grh);
	if (p->hop_limit <= 1)
		p->hop_limit = HOP_LIMIT;
	return error;
}
