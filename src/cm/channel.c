/* SPDX-License-Identifier: BSD-2-Clause */
/* A channel is a queue of events, and an eventfd that is readable while the queue is not empty. */
#include "cm/channel.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/msan.h"
#include "base/refused.h"
#include "check/cm.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "check/start.h"
#include "cm/calls.h"
#include "cm/cm.h"
#include "cm/id.h"
#include "cm/tuned.h"
#include "fault/inject.h"
#include "progress/wait.h"
#include "device/front.h"
#include "device/faults.h"

static struct event_channel *channel_of(struct rdma_event_channel *channel)
{
	return (struct event_channel *)channel;
}

/* Destroyed channels, whose memory is kept: when a program such as rping ends, another thread may still call
 * rdma_get_cm_event(). That call returns EBADF after a delay, as rping would report it as a failure although it has
 * nearly ended successfully. */
static struct list retired GUARDED_BY(cm.lock) = {&retired, &retired};
static uint32_t retired_count GUARDED_BY(cm.lock);

static struct event_channel *channel_reuse(void) EXCLUDES(cm.lock)
{
	struct list *l = NULL;

	lock_take(&cm.lock);
	if (retired_count > RETIRED) {
		l = list_pop(&retired);
		retired_count--;
	}
	lock_drop(&cm.lock);
	return l ? container_of(l, struct event_channel, retired) : NULL;
}

static void retire(struct event_channel *ch) REQUIRES(cm.lock)
{
	ch->base.fd = -1;
	list_append(&retired, &ch->retired);
	retired_count++;
}

PUBLIC struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct event_channel *ch;
	int fd;

	check_start();
	interrupt_start();
	if (faults_read())
		return fail_null(EINVAL);
	fd = refused_say("an event channel cannot be created");
	if (fd)
		return fail_null(-fd);
	fd = inject_call(CALL_rdma_create_event_channel) ? -1 : eventfd(0, EFD_CLOEXEC);
	if (fd < 0)
		return NULL;
	ch = channel_reuse() ?: malloc(sizeof(*ch));
	if (!ch) {
		close(fd);
		return NULL;
	}
	lock_take(&cm.lock);
	*ch = (struct event_channel){.base.fd = fd};
	list_init(&ch->events);
	list_init(&ch->retired);
	lock_drop(&cm.lock);
	check_made(CHECK_EVENT_CHANNEL, ch, 0);
	return &ch->base;
}

/* A program that ends, such as mckey, may destroy its channel while another thread waits on it. That thread must go
 * on waiting, so the channel is not freed then. */
PUBLIC void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct event_channel *ch = channel_of(channel);
	int fd = -1;

	if (hooks_any())
		check_orphaned(CHECK_EVENT_CHANNEL, ch);
	check_gone(CHECK_EVENT_CHANNEL, ch);
	lock_take(&cm.lock);
	if (!ch->waiters && channel->fd >= 0) {
		fd = channel->fd;
		retire(ch);
	}
	lock_drop(&cm.lock);
	if (fd >= 0)
		close(fd);
}

/* ---- events ---- */

struct event *event_make(struct id *id, enum rdma_cm_event_type type, int status)
{
	/* acquire: pairs with event_free() */
	struct event *e = calloc(1, sizeof(*e)) ?: atomic_exchange_explicit(&id->spare, NULL, memory_order_acquire);

	if (!e)
		return NULL;
	memset(e, 0, sizeof(*e));
	list_init(&e->link);
	e->id = id;
	e->base.id = &id->base;
	e->base.event = type;
	e->base.status = status;
	return e;
}

static void event_free(struct event *e)
{
	struct event *none = NULL;

	/* release: pairs with event_make(), which clears the event */
	if (!atomic_compare_exchange_strong_explicit(&e->id->spare, &none, e, memory_order_release,
						     memory_order_relaxed))
		free(e);
}

void event_set_private(struct event *e, const void *data, size_t length, uint8_t *told)
{
	memcpy(e->private_data, data, length);
	*told = (uint8_t)length;
}

static void channel_append(struct event_channel *ch, struct event *e) REQUIRES(cm.lock)
{
	list_append(&ch->events, &e->link);
	if (ch->notify) {
		ch->notify();
		return;
	}
	if (!ch->readable)
		eventfd_write(ch->base.fd, 1);
	ch->readable = true;
}

void event_post(struct event *e)
{
	struct event_channel *ch;

	if (!e)
		return;
	ch = channel_of(e->id->base.channel);
	channel_append(ch, e);
}

/* Makes the eventfd unreadable, if the queue has become empty. */
static void channel_settle(struct event_channel *ch) REQUIRES(cm.lock)
{
	eventfd_t count;

	if (ch->readable && list_empty(&ch->events)) {
		eventfd_read(ch->base.fd, &count);
		ch->readable = false;
	}
}

static struct event *channel_take(struct event_channel *ch) EXCLUDES(cm.lock)
{
	struct event *e = NULL;
	struct list *l;

	lock_take(&cm.lock);
	l = list_pop(&ch->events);
	if (l) {
		e = container_of(l, struct event, link);
		id_count_fetched(e->id);
		channel_settle(ch);
	}
	lock_drop(&cm.lock);
	return e;
}

static void channel_drop(struct id *id, const struct group *group) REQUIRES(cm.lock)
{
	struct event_channel *ch = channel_of(id->base.channel);
	struct list gone, *l;

	list_init(&gone);
	list_each_safe (i, &ch->events) {
		struct event *e = container_of(i, struct event, link);

		if (e->id != id || (group && e->group != group))
			continue;
		list_remove(i);
		list_append(&gone, i);
	}
	channel_settle(ch);
	while ((l = list_pop(&gone))) {
		struct event *e = container_of(l, struct event, link);

		if (e->request)
			id_discard(e->request);
		event_free(e);
	}
}

void events_drop(struct id *id)
{
	channel_drop(id, NULL);
}

void events_drop_group(struct id *id, const struct group *group)
{
	channel_drop(id, group);
}

void events_move(struct id *id, struct event_channel *to)
{
	struct event_channel *from = channel_of(id->base.channel);

	if (from == to)
		return;
	id->base.channel = &to->base;
	list_each_safe (l, &from->events) {
		struct event *e = container_of(l, struct event, link);

		if (e->id->base.channel != &to->base)
			continue;
		/* a queued request takes its new id along, and that id's events */
		if (e->request)
			e->request->base.channel = &to->base;
		list_remove(l);
		channel_append(to, e);
	}
	channel_settle(from);
}

static void complete(struct event *e)
{
	struct id *id = e->id;

	event_free(e);
	pthread_mutex_lock(&id->mutex);
	id->completed++;
	pthread_cond_signal(&id->acknowledged);
	pthread_mutex_unlock(&id->mutex);
}

/* False if the channel is destroyed. */
static bool begin_to_wait(struct event_channel *ch) EXCLUDES(cm.lock)
{
	bool exists;

	lock_take(&cm.lock);
	exists = ch->base.fd >= 0;
	ch->waiters += exists;
	lock_drop(&cm.lock);
	return exists;
}

static void end_wait(void *channel) EXCLUDES(cm.lock)
{
	struct event_channel *ch = channel;

	lock_take(&cm.lock);
	ch->waiters--;
	lock_drop(&cm.lock);
}

/* 0 or -errno. */
static int wait_for_event(struct event_channel *ch, struct rdma_cm_event **event)
{
	for (;;) {
		struct event *e = channel_take(ch);
		int err;

		if (e && (!e->prepare || e->prepare(e))) {
			*event = &e->base;
			return 0;
		}
		if (e) {
			complete(e);
			continue;
		}
		err = loop_wait_alone(ch->base.fd);
		if (err)
			return err;
	}
}

int cm_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int err;

	if (!channel || !event)
		return fail_minus(EINVAL);
	if (!begin_to_wait(channel_of(channel))) {
		poll(NULL, 0, TIME_TO_END);
		return fail_minus(EBADF);
	}
	pthread_cleanup_push(end_wait, channel_of(channel));
	err = wait_for_event(channel_of(channel), event);
	pthread_cleanup_pop(1);
	if (err)
		return fail_minus(-err);
	msan_wrote(event, sizeof(*event));
	if (hooks_any())
		check_heard();
	return 0;
}

PUBLIC int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	return inject_call(CALL_rdma_get_cm_event) ? -1 : cm_get_event(channel, event);
}

PUBLIC int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!event)
		return fail_minus(EINVAL);
	complete((struct event *)event);
	return 0;
}

static int next_event(struct id *id)
{
	if (id->base.event)
		rdma_ack_cm_event(id->base.event);
	id->base.event = NULL;
	return cm_get_event(id->base.channel, &id->base.event);
}

int id_complete(struct id *id, bool sync)
{
	struct rdma_cm_event *e;

	if (!sync)
		return 0;
	do
		if (next_event(id))
			return -1;
	while (id->base.event->event == RDMA_CM_EVENT_ADDR_CHANGE); /* no call asked for this event */
	e = id->base.event;
	if (e->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return fail_minus(ENODEV);
	if (!e->status)
		return 0;
	return fail_minus(e->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : abs(e->status));
}

void id_discard(struct id *id)
{
	list_remove(&id->all);
	if (id->connection)
		connection_release(id->connection, cm_now());
	events_drop(id);
	id_free(id);
}
