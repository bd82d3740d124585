/* SPDX-License-Identifier: BSD-2-Clause */
/* A shared receive queue: receives for the messages of many QPs. verbs/srq.c creates and destroys it; it lives in
 * hca->srqs. A message copies its receive, so the slot is free as soon as it is taken. (Completions come in any order,
 * from the CQs of many QPs, so they cannot tell which slots are free.) `rq.lock` guards all below it. Any thread may
 * call. */
#ifndef UROCE_SRQ_H
#define UROCE_SRQ_H

#include "object/hca.h"
#include "object/cq.h"
#include "object/pd.h"
#include "object/queue.h"
#include "object/xrcd.h"

struct srq {
	struct ibv_srq base; /* the application's object: first */
	struct hca *hca;
	struct pd *pd;
	uint32_t number;	/* slot of the process and index: the number in an XRCETH */
	uint32_t handle;	/* index in hca->srqs */
	_Atomic uint32_t users; /* number of QPs that use it */
	/* XRC, else NULL. Completions go to `cq`, whatever QP a message came to. */
	struct xrcd *xrcd;
	struct cq *cq;
	_Atomic uint32_t inside; /* packets between srq_enter() and srq_leave() */

	struct rq rq;
	bool alive;	 /* between create and destroy */
	uint32_t limit;	 /* SRQ_LIMIT_REACHED when there are fewer receives than this; 0: not armed */
	uint32_t events; /* async events not yet acknowledged: verbs/async.c, under its lock */
};

/* Makes an SRQ. The caller has checked the limits, and fills base. `xrcd` and `cq`: for XRC, else NULL. NULL and errno
 * ENOMEM. */
struct srq *srq_create(struct hca *hca, struct pd *pd, struct xrcd *xrcd, struct cq *cq, uint32_t depth,
		       uint32_t max_sge);
void srq_destroy(struct srq *srq) EXCLUDES(srq->rq.lock); /* when no QP uses it any more */

/* As pd_check(). */
static inline int srq_check(const struct ibv_srq *base)
{
	return !base ? EINVAL : base->handle != ((const struct srq *)base)->handle ? ENOENT : 0;
}

/* The XRC SRQ with that number if it is of that domain; else NULL. It stays until srq_leave(), which must come soon. */
struct srq *srq_enter(struct hca *hca, uint32_t number, const struct xrcd_name *domain);
void srq_leave(struct srq *srq);

/* As rq_take() and rq_post(). */
bool srq_take(struct srq *srq, struct credit *credit, struct rwqe *out, uint32_t *position) EXCLUDES(srq->rq.lock);
int srq_post(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) EXCLUDES(srq->rq.lock);

/* Offers receives to local peers, for messages to QPs. Returns the index of the SRQ's entry in their table, from 1; 0:
 * it offers none. */
uint32_t srq_offer(struct srq *srq) EXCLUDES(srq->rq.lock);
/* A message for that QP has used up the receive at that position, which its sender has claimed. `copy`: of the receive;
 * may be NULL. False: that cannot be. */
bool srq_claimed(struct srq *srq, uint32_t position, uint32_t qp, uint32_t length, uint64_t *wr_id, struct rwqe *copy)
	EXCLUDES(srq->rq.lock);
/* Takes a receive that was claimed for a message to that QP, whose sender has died before the message was there. *cell
 * counts from 0 on: offers_find_claimed(). False: there is no more. */
bool srq_take_claimed(struct srq *srq, uint32_t qp, uint32_t *cell, uint32_t *position, uint64_t *wr_id)
	EXCLUDES(srq->rq.lock);
/* Puts all such receives back into the queue. */
void srq_return_claimed(struct srq *srq, uint32_t qp) EXCLUDES(srq->rq.lock);
/* True if no receive is left for a message that comes as a packet. */
bool srq_is_empty(struct srq *srq) EXCLUDES(srq->rq.lock);

/* Changes what `mask` (enum ibv_srq_attr_mask) selects, all or nothing. 0, -EINVAL (more are posted than `depth`, or
 * `limit` exceeds the queue) or -ENOMEM. */
int srq_modify(struct srq *srq, uint32_t depth, uint32_t limit, int mask) EXCLUDES(srq->rq.lock);

#endif
