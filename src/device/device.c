/* SPDX-License-Identifier: BSD-2-Clause */
/* Read access to a device. */

#include "device/device.h"

#include <string.h>

#include "base/lock.h"
#include "device/adapter.h"
#include "link/netif.h"

static const union ibv_gid no_gid;

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
