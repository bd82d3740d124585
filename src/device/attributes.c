/* SPDX-License-Identifier: BSD-2-Clause */
/* State, MTU, width and speed of a port. */

#include "device/attributes.h"

#include <string.h>

#include "base/lock.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/front.h"
#include "device/tuned.h"
#include "link/netif.h"
#include "object/hca.h"

enum { /* IBTA: PortInfo.PortPhysicalState */
       PHYSICAL_DISABLED = 3,
       PHYSICAL_LINK_UP = 5,
};

/* PortInfo LinkWidthActive and LinkSpeedActive for a speed of at most `mbps` Mb/s, as the kernel reports for Ethernet.
 */
static const struct {
	uint32_t mbps;
	uint8_t width, speed;
} speeds[] = {
	{1000, 1, 1},	{10000, 1, 8},	 {20000, 2, 2},	  {25000, 1, 32},	{40000, 2, 8},
	{50000, 1, 64}, {100000, 2, 32}, {200000, 2, 64}, {UINT32_MAX, 2, 128},
};

static void fill_speed(struct ibv_port_attr *a, uint32_t mbps)
{
	size_t i = 0;

	while (mbps > speeds[i].mbps)
		i++;
	a->active_width = speeds[i].width;
	a->active_speed = speeds[i].speed;
}

/* Fills a port of an InfiniBand subnet with HDR that OpenSM has set up. */
static void fill_infiniband(struct device *d, struct ibv_port_attr *a)
{
	a->lid = device_lid(d);
	a->port_cap_flags = 0x2651e848; /* as ibstat shows for mlx5 on InfiniBand */
	a->pkey_tbl_len = INFINIBAND_PKEYS;
	a->sm_lid = INFINIBAND_SM_LID;
	a->max_vl_num = 4; /* VL0 to VL7 */
	a->subnet_timeout = 18;
	a->active_width = 2;  /* 4X */
	a->active_speed = 64; /* HDR */
	a->link_layer = IBV_LINK_LAYER_INFINIBAND;
}

uint32_t device_gid_places(void)
{
	return adapter_is_infiniband() ? INFINIBAND_GIDS : DEVICE_GIDS;
}

void device_port(struct device *d, struct ibv_port_attr *attr)
{
	bool running;

	lock_take(&d->lock);
	running = d->running;
	lock_drop(&d->lock);
	*attr = (struct ibv_port_attr){
		.state = running ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.phys_state = running ? PHYSICAL_LINK_UP : PHYSICAL_DISABLED,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = device_active_mtu(d),
		.gid_tbl_len = (int)device_gid_places(),
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = adapter()->message_most ?: HCA_MAX_MESSAGE,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	if (adapter_is_infiniband()) {
		fill_infiniband(d, attr);
		return;
	}
	fill_speed(attr, netif_speed(d->netif_name) ?: SPEED_DEFAULT);
}

void device_rate(struct device *d, struct port_rate *rate)
{
	static const struct {
		uint8_t speed;
		uint32_t mbps;
		const char *name;
	} lane[] = {
		{1, 2500, "SDR"},   {2, 5000, "DDR"},	{8, 10000, "FDR10"},
		{32, 25000, "EDR"}, {64, 50000, "HDR"}, {128, 100000, "NDR"},
	};
	struct ibv_port_attr port;
	size_t i = 0;

	device_port(d, &port);
	while (i + 1 < ARRAY_SIZE(lane) && lane[i].speed != port.active_speed)
		i++;
	rate->lanes = port.active_width == 1 ? 1 : 4;
	rate->mbps = rate->lanes * lane[i].mbps;
	rate->name = lane[i].name;
}
