/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores of uroce itself to memory of the program, so that the program is not blamed for them. */
#ifndef UROCE_CHECK_PLACED_H
#define UROCE_CHECK_PLACED_H

#include "check/request.h"
#include "check/objects.h"

struct placed {
	uint64_t at, length;
	uint32_t qpn;	 /* number of the queue pair of this process by which the bytes came */
	bool is_request; /* the bytes of a peer's WRITE or atomic; else those of a receive or a READ of this process */
};

/* Number of stores so far. Any thread, without locks. */
uint64_t placed_count(void);
/* Bytes are about to be stored, or have been. */
void placed_note(struct placed p) REQUIRES(objects_lock);
/* placed_note() of the memory of a request. */
void placed_request(const struct request *r) REQUIRES(objects_lock);
/* Finds a store to the memory of the request since its digest was taken: if there is one, a WRITE that came by another
 * queue pair. False: there was no store. */
bool placed_since(const struct request *r, struct placed *found) REQUIRES(objects_lock);

#endif
