/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: ibv_post_send() and what follows a change of state. post.c has the post table. */
#ifndef UROCE_PORT_POST_H
#define UROCE_PORT_POST_H

#include "object/qp.h"

/* ibv_post_send(): by the post table, or through the queue. Returns as engine_post_send(). */
int loop_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) EXCLUDES(qp->lock);
/* The same for a list of `count` requests, of which none is posted if the queue has no room for all: ENOMEM. */
int loop_post_batch(struct qp *qp, struct ibv_send_wr *wr, uint32_t count, struct ibv_send_wr **bad) EXCLUDES(qp->lock);

/* Called before engine_post_send(): changes the QP over to its local peer if possible, so that even the first one-sided
 * operation completes at once. */
void loop_posting(struct qp *qp) REQUIRES(qp->lock);

/* Called after engine_post_send(): sends now if the connection is idle or enough is queued. Otherwise the requests
 * leave with the next post or poll, or when an expected ACK arrives. */
void loop_posted(struct qp *qp) REQUIRES(qp->lock);

/* Called after engine_modify(), engine_fail() and every other change: runs the engine until nothing is left to send,
 * sends, and sets the timer. */
void loop_run(struct qp *qp) REQUIRES(qp->lock);

#endif
