/* SPDX-License-Identifier: BSD-2-Clause */
/* Happens-before order for ThreadSanitizer in the program, which sees neither the adapter's synchronization nor the
 * wire: what a thread does before a post comes before what another thread does after polling the completion of the
 * request, or of the message at a queue pair of this process. */
#ifndef UROCE_CHECK_ORDER_H
#define UROCE_CHECK_ORDER_H

#include "check/request.h"

struct hca;

/* Detects ThreadSanitizer. Without it, the other functions do nothing. */
void order_start(void);
/* This thread uses the memory of a request that it is about to post: it reads what is sent, and stores what is brought,
 * for the adapter. Of long memory, both ends. */
void order_uses(struct hca *hca, const struct request *r);
/* The same before that; called before this thread posts requests to the queue pair, or receives to a queue. */
void order_before_send(const struct ibv_qp *qp, const struct ibv_send_wr *wr);
void order_before_receive(const void *queue);
/* Called after a completion of the QP was polled. `queue`: where the receive was posted; NULL for a send. */
void order_after(const struct ibv_qp *qp, const void *queue);

#endif
