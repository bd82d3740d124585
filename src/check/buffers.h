/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: the bytes that a request sends, from post to poll. */
#ifndef UROCE_CHECK_BUFFERS_H
#define UROCE_CHECK_BUFFERS_H

#include "check/queues.h"

/* The request is about to be posted; it has been done. */
void buffers_begin(struct request *r);
void buffers_end(const struct request *r);
/* The region is about to be deregistered. */
void buffers_mapped(const struct ibv_mr *mr);

#endif
