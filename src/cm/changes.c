/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of ids for changes of their devices. */
#include "cm/changes.h"

#include "cm/bind.h"
#include "cm/calls.h"
#include "cm/channel.h"
#include "cm/cm.h"
#include "cm/device.h"
#include "cm/id.h"
#include "device/device.h"
#include "device/monitor.h"
#include "verbs/context.h"

/* Moves an id whose device was removed to ID_LOST. */
static void lose_device(struct id *id) REQUIRES(cm.lock)
{
	listener_remove(id);
	list_remove(&id->resolving);
	if (id->connection)
		connection_release(id->connection, cm_now());
	id->connection = NULL;
	id->state = ID_LOST;
	event_post(event_make(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0));
}

/* True if the MAC address of the id's interface has changed, or the interface no longer has the id's IP address. */
static bool id_has_moved(struct id *id, struct device *d, unsigned changes) REQUIRES(cm.lock)
{
	bool was_astray = id->astray;

	id->astray = device_find_gid(d, &id->address.local) < 0;
	return changes & DEVICE_MAC_CHANGED || (id->astray && !was_astray);
}

struct change {
	struct device *device;
	unsigned what;
};

static void id_follow(struct id *id, void *arg)
{
	const struct change *change = arg;

	lock_assert_held(&cm.lock);
	if (!id->device || context_of(id->device->verbs)->device != change->device)
		return;
	if (change->what & DEVICE_GONE)
		lose_device(id);
	else if (id_has_moved(id, change->device, change->what))
		event_post(event_make(id, RDMA_CM_EVENT_ADDR_CHANGE, 0));
}

void changes_follow(struct device *d, unsigned changes)
{
	if (d)
		ids_each(id_follow, &(struct change){d, changes});
	else
		listeners_look_around();
}
