/* SPDX-License-Identifier: BSD-2-Clause */
/* A TCP sender that always has data, to compare with: CUBIC (RFC 9438) with selective acknowledgements, of which none
 * is lost. It leaves out HyStart and tail-loss probes. */
#ifndef PATH_TCP_H
#define PATH_TCP_H

#include "base/base.h"
#include "base/clock.h"

enum { TCP_MSS = 1448, TCP_FLIGHT = 1 << 17 };

/* Puts so many bytes on the path: when they arrive; 0: they are lost. */
typedef uint64_t tcp_carry(void *arg, uint32_t bytes, uint64_t now);

struct tcp {
	tcp_carry *carry;
	void *arg;
	uint64_t back, now; /* ns: from the receiver to here; the time */
	double window, threshold, most, estimate, round_trip;
	uint64_t epoch;		      /* of the cubic function; 0: none */
	uint32_t head, tail, reduced; /* segments sent; no second reduction before those that were sent by then */
	uint32_t settled;	      /* of those from `head` on: acknowledged, or lost */
	uint64_t delivered, counted;
	uint64_t *answer,
		*sent; /* of TCP_FLIGHT segments: when the ACK comes (NEVER: lost, 0: settled), when it was sent */
};

void tcp_init(struct tcp *t, tcp_carry *carry, void *arg, uint64_t back, uint64_t now);
void tcp_fini(struct tcp *t);
uint64_t tcp_next(const struct tcp *t);
void tcp_step(struct tcp *t, uint64_t now);
/* From here on, bytes that are delivered count. */
void tcp_count(struct tcp *t);
uint64_t tcp_delivered(const struct tcp *t);

#endif
