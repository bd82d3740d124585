/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of connection management: see device.h. */
#include "device/device.h"
#include "cm/device.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "check/scope.h"
#include "verbs/context.h"

static struct lock opened_lock = LOCK_RANKED(CM_OPENED);
static struct cm_device *devices[DEVICE_LIMIT] GUARDED_BY(opened_lock);
static uint32_t device_count GUARDED_BY(opened_lock);

static bool device_is_open(struct ibv_device *d) REQUIRES(opened_lock)
{
	for (uint32_t i = 0; i < device_count; i++)
		if (devices[i]->verbs->device == d)
			return true;
	return false;
}

/* 0 or -errno. */
static int device_start(struct cm_device *d, struct ibv_device *device)
{
	struct ibv_device_attr attr;
	int err;

	d->verbs = ibv_open_device(device);
	if (!d->verbs)
		return -errno;
	d->pd = ibv_alloc_pd(d->verbs);
	err = d->pd ? -ibv_query_device(d->verbs, &attr) : -errno;
	if (err) {
		cause_say(CAUSE_SHORTAGE, "%s is not opened for librdmacm: %s", device->name, strerror(-err));
		if (d->pd)
			ibv_dealloc_pd(d->pd);
		ibv_close_device(d->verbs);
		return err;
	}
	d->guid = be64toh(attr.node_guid);
	d->responder_resources = (uint8_t)min_of(attr.max_qp_rd_atom, 255);
	d->initiator_depth = (uint8_t)min_of(attr.max_qp_init_rd_atom, 255);
	return 0;
}

static int open_one(struct ibv_device *device) REQUIRES(opened_lock)
{
	struct cm_device *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	check_pause();
	err = device_start(d, device);
	check_resume();
	if (err)
		free(d);
	else
		devices[device_count++] = d;
	return err;
}

/* Opens all devices, as new interfaces may have added some. 0, or the -errno for which one could not be opened. */
static int open_all(void) REQUIRES(opened_lock)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int result = list ? 0 : -errno;

	for (int i = 0; list && list[i]; i++) {
		int err = 0;

		if (!device_is_open(list[i]) && device_count < DEVICE_LIMIT)
			err = open_one(list[i]);
		if (err && err != -ENODEV) /* ENODEV: the interface was just removed */
			result = err;
	}
	if (list)
		ibv_free_device_list(list);
	return result;
}

static struct cm_device *device_find(const union ibv_gid *address, int *index) REQUIRES(opened_lock)
{
	for (uint32_t i = 0; i < device_count; i++) {
		*index = device_find_gid(context_of(devices[i]->verbs)->device, address);
		if (*index >= 0)
			return devices[i];
	}
	return NULL;
}

int device_of_address(const union ibv_gid *address, struct cm_device **d, int *index)
{
	int err = 0;

	lock_take(&opened_lock);
	*d = device_find(address, index);
	if (!*d) {
		err = open_all();
		*d = device_find(address, index);
	}
	lock_drop(&opened_lock);
	return *d ? 0 : err ?: -ENODEV;
}

int devices_each(int (*use)(struct cm_device *d, void *arg), void *arg)
{
	int result = 0, err;

	lock_take(&opened_lock);
	err = open_all();
	for (uint32_t i = 0; i < device_count && !result; i++)
		if (!device_is_gone(context_of(devices[i]->verbs)->device))
			result = use(devices[i], arg);
	lock_drop(&opened_lock);
	return result ?: err;
}

int device_each_address(struct cm_device *d, int (*use)(const union ibv_gid *address, void *arg), void *arg)
{
	int result = 0;

	for (uint32_t i = 0; i < DEVICE_GIDS && !result; i++) {
		union ibv_gid gid;

		if (device_gid(context_of(d->verbs)->device, i, &gid))
			result = use(&gid, arg);
	}
	return result;
}

struct ibv_xrcd *device_xrcd(struct cm_device *d)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};

	lock_take(&opened_lock);
	if (!d->xrcd)
		d->xrcd = ibv_open_xrcd(d->verbs, &attr);
	lock_drop(&opened_lock);
	return d->xrcd;
}

enum ibv_mtu device_mtu(const struct cm_device *d)
{
	return device_active_mtu(context_of(d->verbs)->device);
}

void devices_forget(void)
{
	lock_assert_unshared(&opened_lock);
	device_count = 0;
}
