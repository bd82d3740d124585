/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of a requester: the transport timer (IBTA 9.7.6.1), the RNR timer (9.7.5.2.8), round-trip times, and tail-loss
 * probes, which the specification leaves open. retry.c has the consequences. With qp->lock. */
#ifndef UROCE_ENGINE_TIMERS_H
#define UROCE_ENGINE_TIMERS_H

#include "engine/cursor.h"

/* Notes that packets have been sent. */
void note_sent(struct qp *qp, uint64_t now);
/* Notes that packets have been acknowledged. */
void note_progress(struct qp *qp, uint64_t now);

/* note_progress() of links that lose nothing. */
static inline void note_moved(struct qp *qp)
{
	struct requester *r = &qp->req;

	r->retries = qp->attr.retry_cnt;
	r->rnr_retries = qp->attr.rnr_retry;
	r->gap_seen = false;
	r->pause = PAUSE_NONE; /* the refused message stood at una: an earlier copy of it has been taken since */
	r->moved = true;
}

/* Notes that the peer lives, and has received something out of order. */
void note_heard(struct qp *qp, uint64_t now);

/* Drops the measurement (Karn): an answer could be to either copy. If nothing was measured before, the time since the
 * first copy is used. */
static inline void forget_timing(struct requester *r)
{
	if (r->srtt)
		r->timed_at = 0;
}

/* Notes that the requester has gone back: older answers may come for one round trip. */
void note_hole(struct requester *r, uint64_t now);
/* Notes that the packet whose round trip is measured has arrived. */
void round_trip_measured(struct requester *r, uint64_t now);
/* Stops all timers and puts the cursor at the tail: nothing is in flight. */
void retry_reset(struct qp *qp);
/* Reads UROCE_TIMERS. */
void retry_configure(struct qp *qp);
/* Sets the intervals, when the timeout attribute or the link has changed. */
void retry_set_intervals(struct qp *qp);
/* The wait for an answer that is not lost, in ns. */
uint64_t round_trip(const struct requester *r);
/* Notes that the peer has this packet. Ends its measurement, if its round trip is being measured. */
void note_received(struct requester *r, struct scoreboard *b, psn_t psn, uint64_t now);
/* True if something is in flight. */
static inline bool is_waiting(const struct requester *r)
{
	return r->una.v != r->high.v;
}
/* The time `interval` after `now`, in ns; NEVER: no time. */
static inline uint64_t timer_after(uint64_t now, uint64_t interval)
{
	return interval == NEVER ? NEVER : now + interval;
}
/* Restarts the transport timer; an interval of NEVER stops it. */
void restart_timer(struct requester *r, uint64_t now, uint64_t interval);
/* Time at which to doubt that the last packet arrived, in ns: well after a round trip, well before the transport
 * timer. */
uint64_t probe_after(const struct qp *qp, uint64_t now);
/* Wait of the requester after an RNR NAK with that timer code, in ns. */
uint64_t rnr_wait(const struct requester *r, uint8_t timer);
/* Periods of the transport timer without progress after which it fires. */
uint32_t timer_periods(const struct requester *r);

#endif
