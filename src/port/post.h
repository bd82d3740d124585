/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: see post.c. */
#ifndef UROCE_PORT_POST_H
#define UROCE_PORT_POST_H

#include "object/qp.h"

/* ibv_post_send(): by the post table (post.c), or through the queue. Returns the same as engine_post_send(). */
int loop_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) EXCLUDES(qp->lock);
/* The same for `count` requests, of which none is posted if there is no room for all. NULL: only looks whether there
 * is. */
int loop_post_batch(struct qp *qp, struct ibv_send_wr *wr, uint32_t count) EXCLUDES(qp->lock);

/* Before engine_post_send(): changes the QP over to its local peer if it can, so that even the first one-sided
 * operation completes at once. With one one-sided operation in flight, the next ones could not. */
void loop_posting(struct qp *qp) REQUIRES(qp->lock);

/* After engine_post_send(): sends now if the connection is idle or enough is queued. Otherwise the requests leave
 * with the next post or poll, or when an expected ACK arrives. */
void loop_posted(struct qp *qp) REQUIRES(qp->lock);

/* After engine_modify(), engine_fail() and all others: runs the engine until nothing is left to send, sends, and
 * sets the timer. */
void loop_run(struct qp *qp) REQUIRES(qp->lock);

#endif
