/* SPDX-License-Identifier: BSD-2-Clause */
/* Outstanding requests: their places in queues, and who may access their memory. With objects_lock. */
#ifndef UROCE_CHECK_OUTSTANDING_H
#define UROCE_CHECK_OUTSTANDING_H

#include "check/queues.h"
#include "check/request.h"
#include "check/objects.h"

/* Adds a request that is about to be posted. `cq`: where its completion is expected; NULL: no completion. */
void request_begin(struct object *o, struct request *r, struct object *cq) REQUIRES(objects_lock);
/* A READ or an atomic of any queue pair whose result is not known to be there, and that brings bytes of the SGEs; NULL:
 * none. `own`: queues that are not looked at; NULL: none. */
const struct request *request_bringing(const struct queues *own, const struct ibv_sge *sge, int sges)
	REQUIRES(objects_lock);
/* Called after this thread has posted its requests to the queue; one may have completed during the post. */
void requests_posted(struct queues *q) REQUIRES(objects_lock);
/* Removes a request; the caller frees it. */
void request_end(struct queues *q, struct request *r) REQUIRES(objects_lock);
/* Removes the `count` last requests, whose post failed. */
void requests_take_back(struct object *o, uint32_t count, bool is_send) REQUIRES(objects_lock);
/* Ends all requests of the queues, without completions. */
void requests_forget(struct queues *q) REQUIRES(objects_lock);

#endif
