/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of a context: ibv_get_async_event(3). */
#ifndef UROCE_VERBS_ASYNC_H
#define UROCE_VERBS_ASYNC_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct context;
struct cq;
struct qp;
struct srq;

/* Queues an event of the port or of the device. */
void async_event(struct context *c, enum ibv_event_type type);

/* Members of hca_ops. async_qp_event(): tells all that have the QP open; with qp->lock held. */
void async_cq_error(struct cq *cq);
void async_qp_event(struct qp *qp, enum ibv_event_type type);
void async_srq_event(struct srq *srq, enum ibv_event_type type);

/* Queues an event of one handle of a QP, in its context. */
void async_tell_qp(struct ibv_qp *qp, enum ibv_event_type type);

/* Whether a number, from another process, is that of an event of queue pairs. */
bool async_is_of_qp(int type);

/* Call one of these before an object is destroyed, when it creates no more events. Drops its events that are not
 * fetched, then blocks until those that are fetched are acknowledged. */
void async_forget_cq(struct context *c, struct cq *cq);
void async_forget_qp(struct context *c, struct qp *qp);
void async_forget_srq(struct context *c, struct srq *srq);
/* Drops all events of the context that are not fetched. */
void async_forget_all(struct context *c);

#endif
