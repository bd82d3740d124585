/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/attend.h"

#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/lock.h"
#include "cm/channel.h"

static _Atomic(struct rdma_event_channel *) channel;
static int service = -1; /* the service thread's eventfd */
static struct lock attend_lock = LOCK_RANKED(SERVICE_ATTEND);
static struct list attending GUARDED_BY(attend_lock) = {&attending, &attending};

struct rdma_event_channel *attend_channel(void)
{
	return atomic_load_explicit(&channel, memory_order_acquire); /* pairs with attend_open() */
}

bool attend_has_event(struct rdma_event_channel *ch)
{
	bool has;

	lock_take(&cm.lock);
	has = !list_empty(&((struct event_channel *)ch)->events);
	lock_drop(&cm.lock);
	return has;
}

void attend_poke(void)
{
	eventfd_write(service, 1);
}

/* The channel's callback for an event, with cm.lock. */
static void attend_notify(void)
{
	lock_take(&attend_lock);
	if (list_empty(&attending))
		attend_poke();
	list_each (l, &attending) {
		struct attendant *a = container_of(l, struct attendant, link);

		if (a->sleeps)
			eventfd_write(a->fd, 1);
		a->sleeps = false;
	}
	lock_drop(&attend_lock);
}

void attend_open(struct rdma_event_channel *ch, int poke)
{
	service = poke;
	((struct event_channel *)ch)->notify = attend_notify;
	atomic_store_explicit(&channel, ch, memory_order_release); /* pairs with attend_channel() */
}

void attend_in_child(void)
{
	lock_assert_unshared(&attend_lock);
	list_init(&attending);
	service = -1;
	atomic_store_explicit(&channel, NULL, memory_order_relaxed);
}

bool attendants_are_there(void)
{
	bool are;

	lock_take(&attend_lock);
	are = !list_empty(&attending);
	lock_drop(&attend_lock);
	return are;
}

void attendant_join(struct attendant *a, int fd)
{
	a->fd = fd;
	a->sleeps = false;
	lock_take(&attend_lock);
	list_append(&attending, &a->link);
	lock_drop(&attend_lock);
}

void attendant_sleeps(struct attendant *a)
{
	lock_take(&attend_lock);
	a->sleeps = true;
	lock_drop(&attend_lock);
}

void attendant_leave(struct attendant *a)
{
	struct rdma_event_channel *ch = attend_channel();

	lock_take(&attend_lock);
	list_remove(&a->link);
	lock_drop(&attend_lock);
	/* events that came before woke no other thread */
	if (ch && attend_has_event(ch) && !attendants_are_there())
		attend_poke();
}
