/* SPDX-License-Identifier: BSD-2-Clause */
/* The locks of verbs/ that are held during fork(), so that the process-wide state is consistent in the child. A thread
 * that holds one of them may only wait for a later one in this list, or for a leaf lock. */
#ifndef UROCE_VERBS_FORK_H
#define UROCE_VERBS_FORK_H

#include "base/lock.h"

extern struct lock remote_lock; /* remote_qp.c: taken before a context's lock and qp->lock */
extern struct lock cqs_lock;	/* cq.c: taken before cq->lock */
extern struct lock pds_lock;	/* pd.c: a leaf lock */
extern struct lock dms_lock;	/* dm.c: a leaf lock */

void remote_forget(void) REQUIRES(remote_lock);
void cqs_forget(void) REQUIRES(cqs_lock); /* all CQs are empty */

#endif
