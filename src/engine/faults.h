/* SPDX-License-Identifier: BSD-2-Clause */
/* What fault injection changes in the engine: posts, completions and one-sided operations. Called with qp->lock held,
 * behind hooks_any(); here as well stand their trace points. */
#ifndef UROCE_ENGINE_FAULTS_H
#define UROCE_ENGINE_FAULTS_H

#include "fault/inject.h"
#include "object/qp.h"

/* Whether a rule may hit what passes here: then it all goes through the queue. */
bool faults_touch(const struct qp *qp);
/* Whether one may hit its packets: then nothing is one-sided, nor sent by reference. */
bool faults_want_packets(const struct qp *qp);
/* A work request is about to be posted at sq.tail. 0 or errno. */
int faults_post(struct qp *qp, struct wqe *w);
/* The region with this key is gone. */
void faults_revoke(struct qp *qp, uint32_t key);
/* The first packet of a SEND that is next in order: takes its receive, and asks about the memory of that. Returns for
 * how long the packet is to wait, ns. */
uint64_t faults_use_receive(struct qp *qp, const struct packet *p);
/* A request of the peer names a region: asks about it. False: nothing is done. DO_REVOKE has been done. */
bool faults_use_remote(struct qp *qp, const struct packet *p, struct inject_verdict *v);
/* Whether the one-sided operation is refused: it goes out as packets. */
bool faults_onesided(struct qp *qp, const struct wqe *w);
/* A request completes. Returns the status that it gets. */
enum ibv_wc_status faults_complete(struct qp *qp, const struct wqe *w, uint32_t position, enum ibv_wc_status status);
/* The same of `count` that were done as they were posted, which no fault concerns. */
__attribute__((cold)) void faults_complete_posted(struct qp *qp, const struct ibv_send_wr *wr, uint32_t position,
						  uint32_t count);
/* A receive completes; may change the status. */
void faults_complete_receive(struct qp *qp, struct cqe *cqe);
/* settle_overrun(): true if a completion was given an error, and the QP has failed as it does then. */
bool faults_settle(struct qp *qp);

/* The name of its device; NULL: it has none. */
static inline const char *faults_device(const struct qp *qp)
{
	return qp->base.context && qp->base.context->device ? qp->base.context->device->name : NULL;
}

/* For loop/: what is the same for all events of a queue pair. */
void faults_act(struct qp *qp, const struct inject_verdict *verdict);
/* For loop/: stops the process of a local peer for so long (0: ends it). */
extern void (*faults_stop_peer)(struct qp *qp, uint64_t duration);

#endif
