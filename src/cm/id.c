/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation and destruction of ids, and changes of their device. */
#include "device/device.h"
#include "device/front.h"
#include "device/monitor.h"
#include "cm/id.h"
#include "check/events.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "check/scope.h"
#include "fault/inject.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/msan.h"
#include "verbs/context.h"

static struct list ids GUARDED_BY(cm.lock) = {&ids, &ids};

struct id *id_make(struct event_channel *channel, void *context, enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->spare = calloc(1, sizeof(struct event));
	if (!id->spare) {
		free(id);
		return NULL;
	}
	id->base.channel = &channel->base;
	id->base.context = context;
	id->base.ps = ps;
	id->base.qp_type = type;
	id->psn = agent_random() & 0xffffff;
	list_init(&id->all);
	list_init(&id->listening);
	list_init(&id->bound);
	list_init(&id->resolving);
	list_init(&id->groups);
	pthread_mutex_init(&id->mutex, NULL);
	pthread_cond_init(&id->acknowledged, NULL);
	return id;
}

void id_enlist(struct id *id)
{
	list_append(&ids, &id->all);
}

void ids_each(void (*use)(struct id *id, void *arg), void *arg)
{
	lock_take(&cm.lock);
	list_each (l, &ids)
		use(container_of(l, struct id, all), arg);
	lock_drop(&cm.lock);
}

bool id_advance(struct id *id, enum id_state from, enum id_state to)
{
	bool was;

	lock_take(&cm.lock);
	was = id->state == from;
	if (was)
		id->state = to;
	lock_drop(&cm.lock);
	return was;
}

enum id_state id_state_of(struct id *id)
{
	enum id_state state;

	lock_take(&cm.lock);
	state = id->state;
	lock_drop(&cm.lock);
	return state;
}

bool id_has_connection(struct id *id)
{
	bool has;

	lock_take(&cm.lock);
	has = id->connection;
	lock_drop(&cm.lock);
	return has;
}

static void id_free(struct id *id)
{
	lock_assert_unshared(&cm.lock); /* no list has the id any more */
	pthread_cond_destroy(&id->acknowledged);
	pthread_mutex_destroy(&id->mutex);
	free(id->base.route.path_rec);
	rdma_freeaddrinfo(id->resolved);
	free(id->qp_attr);
	free(id->connect);
	free(atomic_load_explicit(&id->spare, memory_order_relaxed)); /* no other thread knows the id */
	free(id);
}

void id_discard(struct id *id)
{
	list_remove(&id->all);
	if (id->connection)
		connection_release(id->connection, agent_now());
	events_drop(id);
	id_free(id);
}

void ids_release_all(void)
{
	list_each (l, &ids) {
		struct id *id = container_of(l, struct id, all);

		if (id->connection)
			connection_release(id->connection, agent_now());
		id->connection = NULL;
	}
}

void ids_forget(void)
{
	struct list *l;

	while ((l = list_pop(&ids))) {
		container_of(l, struct id, all)->connection = NULL;
		list_remove(&container_of(l, struct id, all)->resolving);
	}
}

/* The device was removed: the id's state on it is lost. */
static void lose_device(struct id *id) REQUIRES(cm.lock)
{
	listener_remove(id);
	list_remove(&id->resolving);
	if (id->connection)
		connection_release(id->connection, agent_now());
	id->connection = NULL;
	id->state = ID_LOST;
	event_post(event_make(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0));
}

/* True if the MAC address of the id's interface has changed, or the interface does not have the id's IP address any
 * more. */
static bool id_has_moved(struct id *id, struct device *d, unsigned changes) REQUIRES(cm.lock)
{
	bool was_astray = id->astray;

	id->astray = device_find_gid(d, &id->address.local) < 0;
	return changes & DEVICE_MAC_CHANGED || (id->astray && !was_astray);
}

static void id_follow(struct device *d, unsigned changes)
{
	if (!d) {
		listeners_look_around();
		return;
	}
	lock_take(&cm.lock);
	list_each (l, &ids) {
		struct id *id = container_of(l, struct id, all);

		if (!id->device || context_of(id->device->verbs)->device != d)
			continue;
		if (changes & DEVICE_GONE)
			lose_device(id);
		else if (id_has_moved(id, d, changes))
			event_post(event_make(id, RDMA_CM_EVENT_ADDR_CHANGE, 0));
	}
	lock_drop(&cm.lock);
}

__attribute__((constructor)) static void watch_devices(void)
{
	monitor_follow(id_follow);
}

int id_set_device(struct id *id)
{
	struct cm_device *d;
	int index, err = device_of_address(&id->address.local, &d, &index);

	if (err)
		return err;
	lock_take(&cm.lock); /* orders this with id_follow(): it runs after this, or its result is seen here */
	index = device_find_gid(context_of(d->verbs)->device, &id->address.local);
	if (index >= 0)
		id->device = d;
	lock_drop(&cm.lock);
	if (index < 0)
		return -ENODEV;
	id->gid_index = (uint8_t)index;
	id->base.verbs = d->verbs;
	id->base.port_num = PORT;
	id->base.pd = d->pd;
	id->base.route.addr.addr.ibaddr.sgid = id->address.local;
	id->base.route.addr.addr.ibaddr.dgid = id->address.remote;
	id->base.route.addr.addr.ibaddr.pkey = 0xffff;
	return 0;
}

void id_unset_device(struct id *id)
{
	lock_take(&cm.lock);
	id->device = NULL;
	lock_drop(&cm.lock);
	id->address.local = (union ibv_gid){0};
	id->base.verbs = NULL;
	id->base.port_num = 0;
	id->base.pd = NULL;
	id->base.route.addr.addr.ibaddr = (struct rdma_ib_addr){0};
}

static int cm_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
			enum rdma_port_space ps, enum ibv_qp_type type)
{
	bool sync = !channel;
	struct id *id;

	if (sync) {
		check_pause(); /* it is the id's */
		channel = rdma_create_event_channel();
		check_resume();
		if (!channel)
			return -1;
	}
	id = id_make((struct event_channel *)channel, context, ps, type);
	if (!id) {
		log_error("rdma_create_id() fails: there is no memory (ulimit -v)");
		if (sync)
			rdma_destroy_event_channel(channel);
		return fail_minus(ENOMEM);
	}
	id->sync = sync;
	lock_take(&cm.lock);
	id_enlist(id);
	lock_drop(&cm.lock);
	*out = &id->base;
	check_made(CHECK_ID, id, 0, sync ? NULL : channel);
	return 0;
}

int id_create(struct rdma_cm_id **out, enum rdma_port_space ps, enum ibv_qp_type type)
{
	return cm_id_create(NULL, out, NULL, ps, type);
}

PUBLIC int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	if (inject_call(CALL_rdma_create_id))
		return -1;
	msan_wrote(id, sizeof(*id));
	switch (ps) {
	case RDMA_PS_IPOIB:
	case RDMA_PS_UDP:
		return cm_id_create(channel, id, context, ps, IBV_QPT_UD);
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		return cm_id_create(channel, id, context, ps, IBV_QPT_RC);
	}
	return fail_minus(EINVAL);
}

void id_count_fetched(struct id *id)
{
	pthread_mutex_lock(&id->mutex);
	id->fetched++;
	pthread_mutex_unlock(&id->mutex);
}

void id_await_acknowledged(struct id *id)
{
	pthread_mutex_lock(&id->mutex);
	if (hooks_any() && id->completed != id->fetched)
		check_unacknowledged("rdma_destroy_id()",
				     &(struct awaited){&id->completed, id->fetched, &id->acknowledged, &id->mutex});
	while (id->completed != id->fetched)
		pthread_cond_wait(&id->acknowledged, &id->mutex);
	pthread_mutex_unlock(&id->mutex);
}

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
		connection_release(id->connection, agent_now());
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
		check_pause(); /* it is the id's */
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
