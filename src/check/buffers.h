/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes of a request, from post to poll. */
#ifndef UROCE_CHECK_BUFFERS_H
#define UROCE_CHECK_BUFFERS_H

#include "check/request.h"
#include "check/objects.h"

/* Takes the digest of a request that is about to be posted. */
void buffers_begin(struct request *r);
/* Reports writes of the program to a request whose completion has been polled. */
void buffers_end(const struct request *r);
/* Compares the digest just before the first bytes of the request come. */
void buffers_arrive(struct request *r) REQUIRES(objects_lock);
/* Takes the digest again when all `length` bytes are in memory. */
void buffers_placed(struct request *r, uint32_t length) REQUIRES(objects_lock);

#endif
