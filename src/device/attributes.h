/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of a port, for ibv_query_port(3) and files in /sys. */
#ifndef UROCE_DEVICE_ATTRIBUTES_H
#define UROCE_DEVICE_ATTRIBUTES_H

#include <infiniband/verbs.h>

#include "base/lock.h"
#include "device/device.h"

/* Fills the result of ibv_query_port(), except fields that rdma-core 44 lacks. */
void device_port(struct device *d, struct ibv_port_attr *attr) EXCLUDES(d->lock);

/* Length of the port's table of GIDs. */
uint32_t device_gid_places(void);

/* The speed of the port, as device_port() tells it in codes of IBTA. */
struct port_rate {
	uint32_t lanes, mbps; /* mbps: of all lanes */
	const char *name;     /* of the speed of a lane: "HDR" */
};
void device_rate(struct device *d, struct port_rate *rate) EXCLUDES(d->lock);

#endif
