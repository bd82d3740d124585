/* SPDX-License-Identifier: BSD-2-Clause */
/* Migration and destruction of ids. */
#include <stdlib.h>

#include "check/lifetime.h"
#include "check/objects.h"
#include "check/scope.h"
#include "cm/bind.h"
#include "cm/calls.h"
#include "cm/channel.h"
#include "cm/cm.h"
#include "cm/id.h"
#include "cm/multicast.h"
#include "fault/inject.h"
#include "device/front.h"

PUBLIC int rdma_destroy_id(struct rdma_cm_id *base)
{
	struct id *id = id_of(base);

	check_gone(CHECK_ID, id);
	id_leave_groups(id);
	lock_take(&cm.lock);
	listener_remove(id);
	list_remove(&id->resolving);
	list_remove(&id->all);
	if (id->connection)
		connection_release(id->connection, cm_now());
	id->connection = NULL;
	events_drop(id);
	lock_drop(&cm.lock);
	id_unbind(id);
	if (base->event)
		rdma_ack_cm_event(base->event);
	id_await_acknowledged(id);
	if (id->sync)
		rdma_destroy_event_channel(base->channel);
	id_free(id);
	return 0;
}

PUBLIC int rdma_migrate_id(struct rdma_cm_id *base, struct rdma_event_channel *channel)
{
	struct rdma_event_channel *old = base->channel;
	struct id *id = id_of(base);
	bool was_sync = id->sync, sync = !channel;

	if (inject_call(CALL_rdma_migrate_id))
		return -1;
	if (was_sync && sync)
		return fail_minus(EINVAL);
	if (sync) {
		check_pause(); /* the objects are the id's */
		channel = rdma_create_event_channel();
		check_resume();
		if (!channel)
			return -1;
	}
	if (hooks_any())
		check_uses(CHECK_ID, id, sync ? NULL : channel);
	lock_take(&cm.lock);
	events_move(id, (struct event_channel *)channel);
	id->sync = sync;
	lock_drop(&cm.lock);
	if (was_sync) {
		if (base->event)
			rdma_ack_cm_event(base->event);
		base->event = NULL;
		rdma_destroy_event_channel(old);
	}
	id_await_acknowledged(id);
	return 0;
}
