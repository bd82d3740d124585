/* SPDX-License-Identifier: BSD-2-Clause */
/* Watches the network interfaces, and the file of `uroce link`, while there are users: open contexts. Changes are
 * reported to all users by monitor_look(), which any thread may call, and by the helper thread. */
#ifndef UROCE_DEVICE_MONITOR_H
#define UROCE_DEVICE_MONITOR_H

#include "base/list.h"
#include "base/lock.h"
#include "device/link_state.h"

struct device;

/* Embedded in what is told of changes: an open context. */
struct monitor_user {
	struct list link GUARDED_BY(monitor_lock);
	/* A device has changed (`changes`: enum device_change). Called with monitor_lock held. */
	void (*changed)(struct monitor_user *u, struct device *d, unsigned changes);
};

/* The user is told of changes from now on; `changed` is set. The first user starts the watch. `slot`: of this process.
 */
void monitor_join(struct monitor_user *u, unsigned slot);
/* The user is told no more; the last one ends the watch. */
void monitor_leave(struct monitor_user *u);
/* Calls use() for each user, with monitor_lock held. */
void monitor_each(void (*use)(struct monitor_user *u, void *arg), void *arg);

/* In the child, with the locks held: reset the state to that of a new process. */
void monitor_forget(void) REQUIRES(monitor_lock);

/* Checks for changes at once. */
void monitor_look(void);
/* The same where no interface has changed, but a fault. */
void monitor_renew(void);

/* Calls follow() for each change of a device (`changes`: enum device_change) with monitor_lock held. After that calls
 * it once with NULL, because an interface may have changed that has no device yet. */
void monitor_follow(void (*follow)(struct device *d, unsigned changes));

#endif
