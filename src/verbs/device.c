/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices as libibverbs has them: the list, and what is asked of an entry without opening it. */

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/cause.h"
#include "base/config_warn.h"
#include "base/msan.h"
#include "base/refused.h"
#include "device/device.h"
#include "device/device_list.h"
#include "device/devices.h"
#include "device/front.h"
#include "device/hint.h"

/* Without a usable interface the list is empty, as the man page says for no devices. ENOSYS would mean that the kernel
 * has no RDMA support, which is not needed here. */
PUBLIC struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct device **list = calloc(DEVICE_LIMIT + 1, sizeof(*list));
	int count;

	count = !list ? -ENOMEM : config_check_once() ? devices_list(list) : -EINVAL;
	if (num_devices)
		*num_devices = max_of(count, 0);
	msan_wrote(num_devices, sizeof(*num_devices));
	if (count >= 0)
		hint_missing(list, count);
	if (count < 0) {
		free(list);
		cause_shortage("ibv_get_device_list", -count);
		refused_say("there is no list of devices");
		return fail_null(-count);
	}
	return (struct ibv_device **)list;
}

PUBLIC void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

PUBLIC const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

PUBLIC int ibv_get_device_index(struct ibv_device *device)
{
	return device_of(device)->number;
}

PUBLIC __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device_of(device)->guid;
}
