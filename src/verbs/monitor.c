/* SPDX-License-Identifier: BSD-2-Clause */
/* Watches the network interfaces while a device is open, and reports changes as asynchronous events. A removed
 * interface is handled as an unplugged adapter: its queue pairs send nothing, and their requests are flushed. */
#include "loop/helper.h"
#include "port/down.h"
#include "port/severed.h"
#include "verbs/context.h"
#include "verbs/fork.h"
#include "verbs/link_state.h"

#include <unistd.h>

struct lock monitor_lock; /* guards all below */
static struct list contexts GUARDED_BY(monitor_lock) = {&contexts, &contexts};
static int watch GUARDED_BY(monitor_lock) = -1; /* of interfaces ... */
static int told GUARDED_BY(monitor_lock) = -1;	/* ... and of `uroce link` */
static void (*follower)(struct device *d, unsigned changes) GUARDED_BY(monitor_lock);

static const struct {
	unsigned change;
	enum ibv_event_type event;
} news[] = {
	{DEVICE_PORT_UP, IBV_EVENT_PORT_ACTIVE},
	{DEVICE_PORT_DOWN, IBV_EVENT_PORT_ERR},
	{DEVICE_GID_CHANGED, IBV_EVENT_GID_CHANGE},
	{DEVICE_GONE, IBV_EVENT_DEVICE_FATAL},
};

static void monitor_report(struct device *d, unsigned changes)
{
	lock_assert_held(&monitor_lock); /* devices_refresh() is called with it */
	list_each (l, &contexts) {
		struct context *c = container_of(l, struct context, open);

		for (size_t i = 0; c->device == d && i < ARRAY_SIZE(news); i++)
			if (changes & news[i].change)
				async_event(c, news[i].event);
		if (c->device == d && changes & DEVICE_GONE)
			qps_fail(c);
	}
	if (follower)
		follower(d, changes);
}

void contexts_each(void (*use)(struct context *c, void *arg), void *arg)
{
	lock_take(&monitor_lock);
	list_each (l, &contexts)
		use(container_of(l, struct context, open), arg);
	lock_drop(&monitor_lock);
}

void monitor_follow(void (*follow)(struct device *d, unsigned changes))
{
	lock_take(&monitor_lock);
	follower = follow;
	lock_drop(&monitor_lock);
}

/* A process that has nothing open is told nothing, and reads the file each time. */
static bool links_have_changed(void) REQUIRES(monitor_lock)
{
	bool changed = (told < 0 || links_told(told)) && links_read();

	if (changed && !list_empty(&contexts))
		loop_renew_down();
	return changed;
}

void monitor_look(void)
{
	bool changed;

	lock_take(&monitor_lock);
	changed = watch >= 0 && netif_changed(watch);
	changed |= links_have_changed();
	if (changed) {
		devices_refresh(monitor_report);
		if (follower)
			follower(NULL, 0);
	}
	lock_drop(&monitor_lock);
}

void monitor_renew(void)
{
	lock_take(&monitor_lock);
	devices_refresh(monitor_report);
	lock_drop(&monitor_lock);
}

static void monitor_handle(void *arg)
{
	monitor_look();
}

void monitor_join(struct context *c)
{
	int fd = -1, link = -1;

	lock_take(&monitor_lock);
	if (list_empty(&contexts)) {
		fd = watch = netif_watch(); /* without it, the addresses stay those of the start */
		link = told = links_listen(c->hca->slot);
	}
	list_append(&contexts, &c->open);
	if (links_read()) /* after the socket is there, so that no change is missed */
		loop_renew_down();
	devices_refresh(monitor_report); /* reports changes since the list was made; called after the watch starts, so
					    that none is missed */
	lock_drop(&monitor_lock);
	if (fd >= 0)
		loop_watch(fd, monitor_handle, NULL);
	if (link >= 0)
		loop_watch(link, monitor_handle, NULL);
}

/* Without the lock: waits for monitor_handle(), which takes it. */
static void watch_no_more(int fd)
{
	if (fd < 0)
		return;
	loop_unwatch(fd);
	close(fd);
}

void monitor_leave(struct context *c)
{
	int fd = -1, link = -1;

	lock_take(&monitor_lock);
	list_remove(&c->open);
	if (list_empty(&contexts)) {
		fd = watch;
		link = told;
		watch = told = -1;
	}
	lock_drop(&monitor_lock);
	watch_no_more(fd);
	watch_no_more(link);
}

/* Drops the parent's contexts, and closes the child's copy of the socket for changes. */
void monitor_forget(void)
{
	while (list_pop(&contexts))
		;
	if (watch >= 0)
		close(watch);
	if (told >= 0)
		close(told);
	watch = told = -1;
}
