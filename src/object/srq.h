/* A shared receive queue: receives that the messages of many QPs use. verbs/srq.c makes and destroys it; it
 * lives in hca->srqs. A slot is free as soon as a message has taken its receive, since it takes a copy
 * (completions come in any order, from CQs of many QPs, so they could not tell how far the ring is done
 * with). `rq.lock` guards all below it. Any thread may call. SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_SRQ_H
#define UROCE_SRQ_H

#include "object/hca.h"
#include "object/pd.h"
#include "object/queue.h"

struct srq {
	struct ibv_srq base; /* what the application holds: first */
	struct hca *hca;
	struct pd *pd;
	uint32_t number;	/* in hca->srqs */
	_Atomic uint32_t users; /* QPs */

	struct rq rq;
	uint32_t limit;	 /* SRQ_LIMIT_REACHED when there are fewer receives than that; 0: not armed */
	uint32_t events; /* async events not yet acknowledged: verbs/async.c, under its lock */
};

/* Limits were checked by the caller, who fills base. NULL and errno ENOMEM. */
struct srq *srq_create(struct hca *hca, struct pd *pd, uint32_t depth, uint32_t max_sge);
void srq_destroy(struct srq *srq) EXCLUDES(srq->rq.lock); /* no QP uses it any more */

/* As rq_take() and rq_post(). */
bool srq_take(struct srq *srq, struct rwqe *out, uint32_t *position) EXCLUDES(srq->rq.lock);
int srq_post(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) EXCLUDES(srq->rq.lock);

/* What `mask` (enum ibv_srq_attr_mask) says, all or nothing. 0, -EINVAL (fewer than are posted, a limit that
 * is more than the queue takes) or -ENOMEM. */
int srq_modify(struct srq *srq, uint32_t depth, uint32_t limit, int mask) EXCLUDES(srq->rq.lock);

#endif
