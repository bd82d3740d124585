/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids: their memory, their list, their state and their device. */
#include "cm/id.h"

#include <errno.h>
#include <stdlib.h>

#include "check/events.h"
#include "cm/agent.h"
#include "cm/calls.h"
#include "cm/cm.h"
#include "cm/comm_id.h"
#include "cm/device.h"
#include "cm/liveness.h"
#include "device/device.h"
#include "device/front.h"
#include "verbs/context.h"
#include "base/hooks.h"

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
	id->psn = cm_random() & 0xffffff;
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

void id_free(struct id *id)
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

void ids_release_all(void)
{
	list_each (l, &ids) {
		struct id *id = container_of(l, struct id, all);

		if (id->connection)
			connection_release(id->connection, cm_now());
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

int id_set_device(struct id *id)
{
	struct cm_device *d;
	int index, err = device_of_address(&id->address.local, &d, &index);

	if (err)
		return err;
	lock_take(&cm.lock); /* orders this with changes.c: that runs later, or its result is seen here */
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

void id_guard(struct id *id)
{
	const struct connection *c;
	bool needed;

	lock_take(&cm.lock);
	c = id->connection;
	needed = c && !(c->is_watched && liveness_is_connected(c->remote_id >> ID_BITS));
	lock_drop(&cm.lock);
	if (needed)
		agent_guard();
}
