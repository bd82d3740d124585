/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices as connection management uses them: each is opened at its first use and never closed. Any thread may
 * call, without cm.lock. */
#ifndef UROCE_CM_DEVICE_H
#define UROCE_CM_DEVICE_H

#include <infiniband/verbs.h>

#include "cm/cm.h"

struct cm_device {
	struct ibv_context *verbs;
	struct ibv_pd *pd;     /* for ids whose application gives no PD */
	struct ibv_xrcd *xrcd; /* NULL: not opened yet */
	uint64_t guid;	       /* host byte order */
	uint8_t responder_resources, initiator_depth;
};

/* The device that has this address, and its GID index. 0; -ENODEV: there is none; or the -errno for which some device
 * could not be opened, which may be that one. */
int device_of_address(const union ibv_gid *address, struct cm_device **d, int *index) EXCLUDES(cm.lock);

/* Calls use() for each present device until it returns other than 0 (which is above 0), and returns that value; or else
 * 0, or the -errno for which some device could not be opened. */
int devices_each(int (*use)(struct cm_device *d, void *arg), void *arg) EXCLUDES(cm.lock);

/* Calls use() for each address of a device, as devices_each(). */
int device_each_address(struct cm_device *d, int (*use)(const union ibv_gid *address, void *arg), void *arg);

/* The XRC domain of ids whose application gives none. NULL and errno on failure. */
struct ibv_xrcd *device_xrcd(struct cm_device *d) EXCLUDES(cm.lock);

/* The largest path MTU of the device's interface. */
enum ibv_mtu device_mtu(const struct cm_device *d);

/* In a child after fork(), before it has threads: no device is open. */
void devices_forget(void);

#endif
