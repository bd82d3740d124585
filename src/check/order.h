/* SPDX-License-Identifier: BSD-2-Clause */
/* ThreadSanitizer of the program. It sees neither the adapter's synchronization nor the wire, so it is
 * told of the order that verbs give: what a thread does before it posts comes before what another one does when it has
 * polled the completion, of the request or of the message at a queue pair of this process. */
#ifndef UROCE_CHECK_ORDER_H
#define UROCE_CHECK_ORDER_H

#include <infiniband/verbs.h>

/* Looks whether the program has ThreadSanitizer; without it, the others do nothing. */
void order_start(void);
/* This thread is about to post requests to the queue pair, or receives to a queue. */
void order_before_send(const struct ibv_qp *qp, const struct ibv_send_wr *wr);
void order_before_receive(const void *queue);
/* A completion of the QP was polled; of a receive, the queue that it was posted to, else NULL. */
void order_after(const struct ibv_qp *qp, const void *queue);

#endif
