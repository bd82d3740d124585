/* SPDX-License-Identifier: BSD-2-Clause */
/* Happens-before order for ThreadSanitizer in the program, which sees neither the adapter's synchronization nor the
 * wire: what a thread does before a post comes before what another thread does after polling the completion of the
 * request, or of the message at a queue pair of this process. */
#ifndef UROCE_CHECK_ORDER_H
#define UROCE_CHECK_ORDER_H

#include <infiniband/verbs.h>

/* Detects ThreadSanitizer. Without it, the other functions do nothing. */
void order_start(void);
/* Called before this thread posts requests to the queue pair, or receives to a queue. */
void order_before_send(const struct ibv_qp *qp, const struct ibv_send_wr *wr);
void order_before_receive(const void *queue);
/* Called after a completion of the QP was polled. `queue`: where the receive was posted; NULL for a send. */
void order_after(const struct ibv_qp *qp, const void *queue);

#endif
