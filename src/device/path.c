/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversion of an address vector to a path. */
#include "device/path.h"

#include <string.h>

#include "device/device.h"
#include "device/front.h"
#include "link/netif.h"
#include "object/qp.h"

/* Resolves the LID of an address vector without GRH: the low half of an IPv4 address in the same /16 network as the
 * port's first one (device_lid()). */
static int resolve_lid(struct device *d, uint16_t lid, struct path *p)
{
	int index = device_first_gid(d, true, &p->sgid);

	if (index < 0 || lid == 0)
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
	int index = grh->sgid_index;
	bool ipv4;

	if (device_address_of_port_gid(&grh->dgid, &dgid)) {
		if (index != 0 && index != PATH_ANY_SGID) /* the port's only GID */
			return -EINVAL;
		index = PATH_ANY_SGID;
	}
	if (memcmp(&dgid, &none, sizeof(none)) == 0)
		return -EINVAL;
	if (address_embeds_group(&dgid) &&
	    (index == PATH_ANY_SGID ? device_first_gid(d, true, &from) >= 0
				    : device_gid(d, (uint32_t)index, &from) && address_is_ipv4(&from)))
		dgid = address_of_group(&dgid);
	ipv4 = address_is_ipv4(&dgid);
	if (index == PATH_ANY_SGID) {
		index = device_first_gid(d, ipv4, &p->sgid);
		if (index < 0)
			return -EINVAL;
	} else if (!device_gid(d, (uint32_t)index, &p->sgid) || address_is_ipv4(&p->sgid) != ipv4) {
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
	if (p->hop_limit <= 1)
		p->hop_limit = HOP_LIMIT;
	return error;
}
