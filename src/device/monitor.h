/* SPDX-License-Identifier: BSD-2-Clause */
/* Watch of the network interfaces, and of the file of `uroce link`, while there are users: open contexts.
 * monitor_look(), which any thread may call, and the helper thread report changes to all users. */
#ifndef UROCE_DEVICE_MONITOR_H
#define UROCE_DEVICE_MONITOR_H

#include "base/list.h"
#include "base/lock.h"
#include "device/link_state.h"

struct device;

/* Part of an open context. */
struct monitor_user {
	struct list link GUARDED_BY(monitor_lock);
	/* Called for a changed device (`changes`: enum device_change), with monitor_lock held. */
	void (*changed)(struct monitor_user *u, struct device *d, unsigned changes);
};

/* Adds a user, whose `changed` is set. The first one starts the watch. `slot`: of this process. */
void monitor_join(struct monitor_user *u, unsigned slot);
/* Removes a user. The last one ends the watch. */
void monitor_leave(struct monitor_user *u);
/* Calls use() for each user, with monitor_lock held. */
void monitor_each(void (*use)(struct monitor_user *u, void *arg), void *arg);

/* Resets the state to that of a new process, in a child, with the locks held. */
void monitor_forget(void) REQUIRES(monitor_lock);

/* Checks for changes at once. */
void monitor_look(void);
/* Checks for changes that a fault makes, without a change of an interface. */
void monitor_renew(void);

/* Calls follow() for each change of a device (`changes`: enum device_change), with monitor_lock held, and then once
 * with NULL: an interface without a device yet may have changed. */
void monitor_follow(void (*follow)(struct device *d, unsigned changes));

#endif
