/* SPDX-License-Identifier: BSD-2-Clause */
/* The congestion window, which RoCE leaves open. A peer that needs all packets again after a loss (go-back-N) gets what
 * RFC 5681 has. Between two uroce a loss is cheap, and a sign of congestion only if packets wait on the way, which the
 * round trip shows (as in TCP Veno and Westwood), or if many are lost. So the window grows fast while none wait,
 * whatever is lost; as TCP's while some do; and shrinks to 0.7 at most (as CUBIC's, RFC 9438) when some are lost then.
 * tests/path has what comes of it. */
#ifndef UROCE_ENGINE_CONGESTION_H
#define UROCE_ENGINE_CONGESTION_H

#include "engine/board.h"
#include "engine/tuned.h"
#include "engine/wqe.h"

/* Charge, in bytes, of the packets on the way to the peer. */
static inline uint32_t in_network(const struct requester *r)
{
	return r->flight > r->absent ? r->flight - r->absent : 0;
}

/* Takes a measured round trip, in ns. */
void congestion_measured(struct requester *r, uint64_t round_trip);
/* Grows the window of a requester with a scoreboard, as bytes have arrived. */
void congestion_grow(struct requester *r, uint32_t acked);
/* Notes lost packets; `timeout`: found by the transport timer. */
void note_loss(struct qp *qp, bool timeout);

/* Grows the window, as `acked` bytes have arrived. */
static inline void grow_window(struct requester *r, uint32_t acked)
{
	if (unlikely(r->board)) {
		congestion_grow(r, acked);
		return;
	}
	if (r->recovering || r->lossless)
		return;
	if (r->window < r->threshold)
		r->window += acked;
	else
		r->window += (uint32_t)((uint64_t)acked * (4096 + PACKET_OVERHEAD) / r->window);
}

/* True if the window lets a packet go that is sent again. */
bool window_allows_repair(const struct requester *r);

#endif
