/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests become outstanding, and end: their places in queues, and the rights to their memory meanwhile. With
 * objects_lock. */
#ifndef UROCE_CHECK_OUTSTANDING_H
#define UROCE_CHECK_OUTSTANDING_H

#include "check/queues.h"
#include "check/request.h"
#include "check/objects.h"

/* The request is about to be posted. `cq`: where its completion is expected; NULL: it has none. */
void request_begin(struct object *o, struct request *r, struct object *cq) REQUIRES(objects_lock);
/* This thread has posted its requests to the queue: until now one may have been done while it was being posted. */
void requests_posted(struct queues *q) REQUIRES(objects_lock);
/* The request is not outstanding any more; the caller frees it. */
void request_end(struct queues *q, struct request *r) REQUIRES(objects_lock);
/* The `count` last requests were not posted after all. */
void requests_take_back(struct object *o, uint32_t count, bool is_send) REQUIRES(objects_lock);
/* All requests of the queues end, without a completion. */
void requests_forget(struct queues *q) REQUIRES(objects_lock);

#endif
