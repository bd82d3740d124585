/* SPDX-License-Identifier: BSD-2-Clause */
/* The locks of verbs/ that are held during fork(), so that the process-wide state is consistent in the child. A thread
 * that holds one of them may only wait for a later one in this list, or for a leaf lock. */
#ifndef UROCE_FORK_H
#define UROCE_FORK_H

#include "base/lock.h"

/* In locking order. */
extern struct lock monitor_lock; /* monitor.c: taken before a context's and a device's lock, cm.lock and qp->lock */
extern struct lock remote_lock;	 /* remote_qp.c: taken before a context's lock and qp->lock */
extern struct lock devices_lock; /* device.c */
extern struct lock cqs_lock;	 /* cq.c: taken before cq->lock */
extern struct lock pds_lock;	 /* pd.c: a leaf lock */
extern struct lock dms_lock;	 /* dm.c: a leaf lock */

/* In the child, with the locks held: reset the state to that of a new process. */
void monitor_forget(void) REQUIRES(monitor_lock);
void remote_forget(void) REQUIRES(remote_lock);
void cqs_forget(void) REQUIRES(cqs_lock); /* all CQs are empty */
void devices_unlock(void) REQUIRES(devices_lock); /* unlocks the lock of each device */

#endif
