/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores of uroce to memory of the program, so that the program is not blamed for them. */
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
/* Notes a store that is about to be made, or was made. */
void placed_note(struct placed p) REQUIRES(objects_lock);
/* Notes a store to the memory of a request. */
void placed_request(const struct request *r) REQUIRES(objects_lock);
/* True if there was a store to the memory of the request since its digest was taken. `found` gets a WRITE that came
 * by another queue pair, if there was one. */
bool placed_since(const struct request *r, struct placed *found) REQUIRES(objects_lock);

#endif
