/* SPDX-License-Identifier: BSD-2-Clause */
/* Polling a CQ: takes CQEs and frees the slots of the work queues that they name. Any thread may call. */
#ifndef UROCE_CQ_POLL_H
#define UROCE_CQ_POLL_H

#include "object/cq.h"

/* Takes up to `max` CQEs, oldest first, and frees their work queue slots. */
int cq_poll(struct cq *cq, int max, struct cqe *out) EXCLUDES(cq->lock);
/* cq_poll() to struct ibv_wc. The CQ does not look empty, and the poll ends with this call: cq_left(). */
int cq_poll_wc(struct cq *cq, int max, struct ibv_wc *out) EXCLUDES(cq->lock);

#endif
