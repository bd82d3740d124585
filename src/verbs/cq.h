/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: creation, and all of this process. */
#ifndef UROCE_VERBS_CQ_H
#define UROCE_VERBS_CQ_H

#include "verbs/cq_front.h"

extern struct lock cqs_lock; /* guards the list */

/* `channel` and `holder` (a parent domain) may be NULL. Returns NULL and errno on failure: EINVAL (size, completion
 * vector, a channel of another context), ENOMEM. */
struct cq_front *cq_front_create(struct ibv_context *c, uint32_t cqe, void *cq_context,
				 struct ibv_comp_channel *channel, uint32_t comp_vector, struct pd *holder);

/* Calls use() for each CQ, with cqs_lock held. */
void cqs_each(void (*use)(struct cq_front *f, void *arg), void *arg);

/* Whether completions seem to wait. If there are none, makes progress and looks once more. */
bool cq_front_await(struct cq *cq);

/* Member of hca_ops: starts the timer of a CQ whose event is delayed. */
void cq_delayed(struct cq *cq);

/* In a child of fork(): all CQs are empty. */
void cqs_forget(void) REQUIRES(cqs_lock);

#endif
