/* SPDX-License-Identifier: BSD-2-Clause */
/* Races between requests of different queue pairs: accesses to the same bytes, at least one a write, where the
 * program cannot know that the first is done before the second is posted. What it knows is one clock for all of its
 * threads, and one for each queue pair mentioned by another queue pair of this process. */
#ifndef UROCE_CHECK_RACES_H
#define UROCE_CHECK_RACES_H

#include "check/objects.h"
#include "check/request.h"

struct qp;

struct race {
	struct request second, first;
};

/* True if an outstanding request races with one that is about to be posted to a QP; both are copied to `race`. */
bool races_find(const struct object *o, struct request *r, const struct ibv_send_wr *wr, struct race *race)
	REQUIRES(objects_lock);
/* Reports what races_find() found. Without locks. */
void races_report(const struct race *race);
/* Notes that a message (or a WRITE or an atomic, if not `is_message`) came to the QP: its sender may know that any
 * request so far is done. */
void races_heard(const struct qp *qp, bool is_message) REQUIRES(objects_lock);
/* Notes that the program has changed the state of the QP: it has the peer's numbers by other means, which may have told
 * more. */
void races_moved(const struct qp *qp) REQUIRES(objects_lock);
/* races_heard() for news of any peer, or for the result of a READ. */
void races_heard_all(void) REQUIRES(objects_lock);

#endif
