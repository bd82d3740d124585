/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes of a request, from post to poll. */
#ifndef UROCE_CHECK_BUFFERS_H
#define UROCE_CHECK_BUFFERS_H

#include "check/request.h"
#include "check/objects.h"

/* The request is about to be posted: takes its digest. */
void buffers_begin(struct request *r);
/* Its completion has been polled: reports writes of the program meanwhile. */
void buffers_end(const struct request *r);
/* The first bytes of the request are about to come. */
void buffers_arrive(struct request *r) REQUIRES(objects_lock);
/* All `length` bytes are in memory. */
void buffers_placed(struct request *r, uint32_t length) REQUIRES(objects_lock);

#endif
