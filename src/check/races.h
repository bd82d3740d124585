/* SPDX-License-Identifier: BSD-2-Clause */
/* Races between requests of different queue pairs: accesses of the same bytes, one of which at least
 * writes, with nothing between them from which the program could know that the first is done. What it knows is one
 * clock for all of its threads, and one of each queue pair of which it has heard by another of its own. */
#ifndef UROCE_CHECK_RACES_H
#define UROCE_CHECK_RACES_H

#include "check/objects.h"
#include "check/request.h"

struct qp;

struct race {
	struct request second, first;
};

/* A request is about to be posted to a QP. True: one that is outstanding races with it; both are copied. */
bool races_find(const struct object *o, struct request *r, const struct ibv_send_wr *wr, struct race *race)
	REQUIRES(objects_lock);
/* Reports what races_find() has found. Without locks. */
void races_report(const struct race *race);
/* A message, or if not `is_message` a WRITE or an atomic, has come to the QP: its sender may have known of all requests
 * so far that they are done. */
void races_heard(const struct qp *qp, bool is_message) REQUIRES(objects_lock);
/* races_heard() of something that any peer may have told, or that a READ has seen. */
void races_heard_all(void) REQUIRES(objects_lock);

#endif
