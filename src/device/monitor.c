/* SPDX-License-Identifier: BSD-2-Clause */
/* Watch of interfaces and of the file of `uroce link`. */
#include "device/monitor.h"

#include <unistd.h>

#include "base/base.h"
#include "base/list.h"
#include "base/lock.h"
#include "device/device.h"
#include "device/devices.h"
#include "device/link_state.h"
#include "link/netif.h"
#include "loop/helper.h"
#include "port/down.h"
#include "port/severed.h"

struct lock monitor_lock = LOCK_RANKED(MONITOR); /* guards all below */
static struct list users GUARDED_BY(monitor_lock) = {&users, &users};
static int watch GUARDED_BY(monitor_lock) = -1; /* socket with changes of interfaces */
static int told GUARDED_BY(monitor_lock) = -1;	/* socket with notices of `uroce link` */
static void (*follower)(struct device *d, unsigned changes) GUARDED_BY(monitor_lock);

static void monitor_report(struct device *d, unsigned changes)
{
	lock_assert_held(&monitor_lock); /* devices_refresh() is called with it */
	list_each (l, &users) {
		struct monitor_user *u = container_of(l, struct monitor_user, link);

		u->changed(u, d, changes);
	}
	if (follower)
		follower(d, changes);
}

void monitor_each(void (*use)(struct monitor_user *u, void *arg), void *arg)
{
	lock_take(&monitor_lock);
	list_each (l, &users)
		use(container_of(l, struct monitor_user, link), arg);
	lock_drop(&monitor_lock);
}

void monitor_follow(void (*follow)(struct device *d, unsigned changes))
{
	lock_take(&monitor_lock);
	follower = follow;
	lock_drop(&monitor_lock);
}

/* True if the file has changed. A process without open devices gets no notices, and reads the file each time. */
static bool links_have_changed(void) REQUIRES(monitor_lock)
{
	bool changed = (told < 0 || links_told(told)) && links_read();

	if (changed && !list_empty(&users))
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

void monitor_join(struct monitor_user *u, unsigned slot)
{
	int fd = -1, link = -1;

	lock_take(&monitor_lock);
	if (list_empty(&users)) {
		fd = watch = netif_watch(); /* without it, the addresses stay as they are */
		link = told = links_listen(slot);
	}
	list_append(&users, &u->link);
	if (links_read()) /* after the socket exists, so that no change is missed */
		loop_renew_down();
	devices_refresh(monitor_report); /* reports changes since the list was made; after the watch starts, so that
					    none is missed */
	lock_drop(&monitor_lock);
	if (fd >= 0)
		loop_watch(fd, monitor_handle, NULL);
	if (link >= 0)
		loop_watch(link, monitor_handle, NULL);
}

/* Closes a socket, without the lock: waits for monitor_handle(), which takes it. */
static void watch_no_more(int fd)
{
	if (fd < 0)
		return;
	loop_unwatch(fd);
	close(fd);
}

void monitor_leave(struct monitor_user *u)
{
	int fd = -1, link = -1;

	lock_take(&monitor_lock);
	list_remove(&u->link);
	if (list_empty(&users)) {
		fd = watch;
		link = told;
		watch = told = -1;
	}
	lock_drop(&monitor_lock);
	watch_no_more(fd);
	watch_no_more(link);
}

/* Drops the parent's users, and closes the child's copy of the socket for changes. */
void monitor_forget(void)
{
	while (list_pop(&users))
		;
	if (watch >= 0)
		close(watch);
	if (told >= 0)
		close(told);
	watch = told = -1;
}
