/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches of extended queue pairs: ibv_wr_start(3). The adapter's functions are behind pointers in the queue pair,
 * which are replaced. A batch is noted down call by call, and goes to src/check/ as a list of requests when the adapter
 * is about to post it. */
#ifndef UROCE_THROUGH_BATCH_H
#define UROCE_THROUGH_BATCH_H

#include "through/shadow.h"

/* The functions of an extended QP are ours from now on. Without memory, its requests are not followed. */
void batch_open(struct shadow *s, struct ibv_qp_ex *qp);
/* The shadow that had the batch has been dropped. NULL: it had none. */
void batch_free(struct batch *b);

#endif
