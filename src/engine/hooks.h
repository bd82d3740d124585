/* SPDX-License-Identifier: BSD-2-Clause */
/* The place where trace, check, counters and fault injection meet in the engine: posts, one-sided operations and
 * completions pass here, behind hooks_any(). Only fault injection may change a result. With qp->lock. */
#ifndef UROCE_ENGINE_HOOKS_H
#define UROCE_ENGINE_HOOKS_H

#include "fault/inject.h"
#include "object/qp.h"

/* True if a rule may hit requests of the QP: then all go through the queue. */
bool faults_touch(const struct qp *qp);
/* True if a rule may hit packets of the QP: then nothing is one-sided, nor sent by reference. */
bool faults_want_packets(const struct qp *qp);
/* Called before a work request is posted at sq.tail. 0 or errno. */
int hooks_post(struct qp *qp, struct wqe *w);
/* Revokes the region with this key. */
void faults_revoke(struct qp *qp, uint32_t key);
/* Asks the rules about a request of the peer that names a region. False: no rule fires. DO_REVOKE has been done. */
bool faults_use_remote(struct qp *qp, const struct packet *p, struct inject_verdict *v);
/* True if a rule refuses the one-sided operation: it goes out as packets. */
bool hooks_onesided(struct qp *qp, const struct wqe *w);
/* Called when a request completes. Returns its status. */
enum ibv_wc_status hooks_complete(struct qp *qp, const struct wqe *w, uint32_t position, enum ibv_wc_status status);
/* Called when `count` requests complete that were done as they were posted, which no fault concerns. */
__attribute__((cold)) void hooks_complete_posted(struct qp *qp, const struct ibv_send_wr *wr, uint32_t position,
						 uint32_t count);
/* Called when a receive completes. Returns its status. */
enum ibv_wc_status hooks_complete_receive(struct qp *qp, const struct cqe *cqe);

/* The name of the QP's device; NULL: none. */
static inline const char *faults_device(const struct qp *qp)
{
	return qp->base.context && qp->base.context->device ? qp->base.context->device->name : NULL;
}

/* Does the part of a verdict that is the same for every event. */
void faults_act(struct qp *qp, const struct inject_verdict *verdict);
/* Set by loop/: stops the process of a local peer for `duration` ns (0: ends it). */
extern void (*faults_stop_peer)(struct qp *qp, uint64_t duration);
/* Asks the rules about an event of this QP. True: a rule fires; *v: its verdict. */
bool faults_ask(struct qp *qp, struct inject_event *e, struct inject_verdict *v);
/* Asks the rules about pieces that a request or a receive is about to use. Refused pieces then name no region. Returns
 * the delay in ns. */
uint64_t faults_use_local(struct qp *qp, struct ibv_sge *sge, uint32_t count, enum rule_use use, uint64_t wr_id);

#endif
