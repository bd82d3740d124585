/* SPDX-License-Identifier: BSD-2-Clause */
/* The place where trace, check, counters and fault injection meet in the engine: posts, one-sided operations and
 * completions pass here, behind hooks_any(). Only fault injection may change a result. With qp->lock. */
#ifndef UROCE_ENGINE_HOOKS_H
#define UROCE_ENGINE_HOOKS_H

#include "fault/inject.h"
#include "object/qp.h"

/* Whether a rule may hit what passes here: then every request goes through the queue. */
bool faults_touch(const struct qp *qp);
/* Whether a rule may hit its packets: then nothing is one-sided, nor sent by reference. */
bool faults_want_packets(const struct qp *qp);
/* A work request is about to be posted at sq.tail. 0 or errno. */
int hooks_post(struct qp *qp, struct wqe *w);
/* The region with this key is gone. */
void faults_revoke(struct qp *qp, uint32_t key);
/* A request of the peer names a region: asks about it. False: nothing is done. DO_REVOKE has been done. */
bool faults_use_remote(struct qp *qp, const struct packet *p, struct inject_verdict *v);
/* Whether the one-sided operation is refused: it goes out as packets. */
bool hooks_onesided(struct qp *qp, const struct wqe *w);
/* A request completes. Returns the status that it gets. */
enum ibv_wc_status hooks_complete(struct qp *qp, const struct wqe *w, uint32_t position, enum ibv_wc_status status);
/* `count` requests complete that were done as they were posted, which no fault concerns. */
__attribute__((cold)) void hooks_complete_posted(struct qp *qp, const struct ibv_send_wr *wr, uint32_t position,
						 uint32_t count);
/* A receive completes. Returns the status that it gets. */
enum ibv_wc_status hooks_complete_receive(struct qp *qp, const struct cqe *cqe);

/* The name of its device; NULL: it has none. */
static inline const char *faults_device(const struct qp *qp)
{
	return qp->base.context && qp->base.context->device ? qp->base.context->device->name : NULL;
}

/* Does what a verdict means for every kind of event. */
void faults_act(struct qp *qp, const struct inject_verdict *verdict);
/* Set by loop/: stops the process of a local peer for `duration` ns (0: ends it). */
extern void (*faults_stop_peer)(struct qp *qp, uint64_t duration);
/* Asks the rules about an event of this QP. True: one fires, *v says what it does. */
bool faults_ask(struct qp *qp, struct inject_event *e, struct inject_verdict *v);
/* A request or a receive is about to use these pieces. What is refused names no region then. Returns for how long it
 * is to wait, ns. */
uint64_t faults_use_local(struct qp *qp, struct ibv_sge *sge, uint32_t count, enum rule_use use, uint64_t wr_id);

#endif
