/* SPDX-License-Identifier: BSD-2-Clause */
/* What verbs/ keeps for the whole process is whole in a child of fork(), whatever other threads were doing: these locks
 * are held while it is made. Nobody who holds one waits for any other lock than a later one, or a leaf. */
#ifndef UROCE_FORK_H
#define UROCE_FORK_H

#include "base/lock.h"

/* In this order. */
extern struct lock monitor_lock; /* monitor.c: taken before a context's and a device's lock, cm.lock and qp->lock */
extern struct lock remote_lock;	 /* remote_qp.c: taken before a context's lock and qp->lock */
extern struct lock devices_lock; /* device.c */
extern struct lock pds_lock;	 /* pd.c: a leaf */
extern struct lock dms_lock;	 /* dm.c: a leaf */

/* In the child, with the locks held: what it begins without. */
void monitor_forget(void) REQUIRES(monitor_lock);
void remote_forget(void) REQUIRES(remote_lock);
void devices_unlock(void) REQUIRES(devices_lock); /* their own locks */

#endif
