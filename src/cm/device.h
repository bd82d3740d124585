/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices as connection management uses them: opened at first use, never closed. Any thread may call, without
 * cm.lock. */
#ifndef UROCE_CM_DEVICE_H
#define UROCE_CM_DEVICE_H

#include <infiniband/verbs.h>

#include "cm/cm.h"

struct cm_device {
	struct ibv_context *verbs;
	struct ibv_pd *pd;     /* for ids of applications that give no PD */
	struct ibv_xrcd *xrcd; /* NULL: not opened yet */
	uint64_t guid;	       /* host byte order */
	uint8_t responder_resources, initiator_depth;
};

/* The device that has this address, and its GID index. 0; -ENODEV if there is none; or the -errno for which a
 * device, which may be that one, could not be opened. */
int device_of_address(const union ibv_gid *address, struct cm_device **d, int *index) EXCLUDES(cm.lock);

/* Calls use() for each present device until it returns a positive value, and returns that. Else 0, or the -errno for
 * which a device could not be opened. */
int devices_each(int (*use)(struct cm_device *d, void *arg), void *arg) EXCLUDES(cm.lock);

/* Calls use() for each address of a device, as devices_each(). */
int device_each_address(struct cm_device *d, int (*use)(const union ibv_gid *address, void *arg), void *arg);

/* The XRC domain for ids of applications that give none. NULL with errno. */
struct ibv_xrcd *device_xrcd(struct cm_device *d) EXCLUDES(cm.lock);

/* The largest path MTU of the device's interface. */
enum ibv_mtu device_mtu(const struct cm_device *d);

/* Drops all devices, in a child after fork() that has no threads yet. */
void devices_forget(void);

#endif
