/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: the bytes of a request, from post to poll. */
#ifndef UROCE_CHECK_BUFFERS_H
#define UROCE_CHECK_BUFFERS_H

#include "check/request.h"
#include "check/objects.h"

/* The request is about to be posted; its completion has been polled. */
void buffers_begin(struct request *r);
void buffers_end(const struct request *r);
/* Of what brings bytes: none of them is there yet; all are there: so many. */
void buffers_arrive(struct request *r) REQUIRES(objects_lock);
void buffers_placed(struct request *r, uint32_t length) REQUIRES(objects_lock);

#endif
