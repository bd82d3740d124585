/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices, as connection management uses them: each is opened once, when it is first needed, and stays
 * open. Any thread, without cm.lock. */
#ifndef UROCE_CM_DEVICE_H
#define UROCE_CM_DEVICE_H

#include <infiniband/verbs.h>

#include "cm/agent.h"

struct cm_device {
	struct ibv_context *verbs;
	struct ibv_pd *pd;     /* for ids whose user brings none */
	struct ibv_xrcd *xrcd; /* NULL: none was asked for yet */
	uint64_t guid;	       /* host byte order */
	uint8_t responder_resources, initiator_depth;
};

/* The device that has this address; its index among the GIDs goes to *index. NULL: none has. */
struct cm_device *device_of_address(const union ibv_gid *address, int *index) EXCLUDES(cm.lock);

/* Calls use() for each device that is there until it returns other than 0, and returns that. */
int devices_each(int (*use)(struct cm_device *d, void *arg), void *arg) EXCLUDES(cm.lock);

/* All addresses of a device. */
int device_each_address(struct cm_device *d, int (*use)(const union ibv_gid *address, void *arg), void *arg);

/* Of ids whose user brings none. NULL and errno. */
struct ibv_xrcd *device_xrcd(struct cm_device *d) EXCLUDES(cm.lock);

/* The largest path MTU of its interface. */
enum ibv_mtu device_mtu(const struct cm_device *d);

#endif
