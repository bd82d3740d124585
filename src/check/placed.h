/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: what uroce itself has stored in memory of the program, so that the program is not blamed for it. */
#ifndef UROCE_CHECK_PLACED_H
#define UROCE_CHECK_PLACED_H

#include "check/request.h"
#include "check/objects.h"

struct placed {
	uint64_t at, length;
	uint32_t qpn;	 /* the queue pair of this process that it came by */
	bool is_request; /* a WRITE or an atomic of a peer; else what a receive or a READ of this process has asked for
			  */
};

/* How many there were. Any thread, without locks. */
uint64_t placed_count(void);
/* Bytes are about to be stored, or have been. */
void placed_note(struct placed p) REQUIRES(objects_lock);
/* The memory of a request. */
void placed_request(const struct request *r) REQUIRES(objects_lock);
/* What was stored into the memory of the request since its digest was taken; a WRITE that came by another queue pair
 * goes before the rest. False: nothing. */
bool placed_since(const struct request *r, struct placed *found) REQUIRES(objects_lock);

#endif
