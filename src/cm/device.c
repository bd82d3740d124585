/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of connection management: see device.h. */
#include "cm/device.h"

#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>

#include "check/check.h"
#include "verbs/context.h"

static struct lock opened_lock; /* taken before all others */
static struct cm_device *devices[DEVICE_LIMIT] GUARDED_BY(opened_lock);
static uint32_t device_count GUARDED_BY(opened_lock);

static bool device_is_open(struct ibv_device *d) REQUIRES(opened_lock)
{
	for (uint32_t i = 0; i < device_count; i++)
		if (devices[i]->verbs->device == d)
			return true;
	return false;
}

static void open_one(struct ibv_device *device) REQUIRES(opened_lock)
{
	struct cm_device *d = calloc(1, sizeof(*d));
	struct ibv_device_attr attr;

	if (!d)
		return;
	check_pause();
	d->verbs = ibv_open_device(device);
	d->pd = d->verbs ? ibv_alloc_pd(d->verbs) : NULL;
	check_resume();
	if (!d->verbs)
		goto err;
	if (!d->pd || ibv_query_device(d->verbs, &attr))
		goto err_close;
	d->guid = be64toh(attr.node_guid);
	d->responder_resources = (uint8_t)min_of(attr.max_qp_rd_atom, 255);
	d->initiator_depth = (uint8_t)min_of(attr.max_qp_init_rd_atom, 255);
	devices[device_count++] = d;
	return;

err_close:
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	ibv_close_device(d->verbs);
err:
	free(d);
}

/* Opens all devices, since new interfaces may have added some; open devices stay open. */
static void open_all(void) REQUIRES(opened_lock)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!device_is_open(list[i]) && device_count < DEVICE_LIMIT)
			open_one(list[i]);
	if (list)
		ibv_free_device_list(list);
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

struct cm_device *device_of_address(const union ibv_gid *address, int *index)
{
	struct cm_device *d;

	lock_take(&opened_lock);
	d = device_find(address, index);
	if (!d) {
		open_all();
		d = device_find(address, index);
	}
	lock_drop(&opened_lock);
	return d;
}

int devices_each(int (*use)(struct cm_device *d, void *arg), void *arg)
{
	int result = 0;

	lock_take(&opened_lock);
	open_all();
	for (uint32_t i = 0; i < device_count && !result; i++)
		if (!device_is_gone(context_of(devices[i]->verbs)->device))
			result = use(devices[i], arg);
	lock_drop(&opened_lock);
	return result;
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
	opened_lock = (struct lock){0}; /* another thread of the parent may have held the lock */
	device_count = 0;
}
