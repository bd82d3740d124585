/* SPDX-License-Identifier: BSD-2-Clause */
/* When a requester stops waiting: the transport timer (IBTA 9.7.6.1), the RNR timer (9.7.5.2.8), round-trip times, and
 * tail-loss probes, which the specification leaves open. What happens then is in retry.c. With qp->lock. */
#ifndef UROCE_ENGINE_TIMERS_H
#define UROCE_ENGINE_TIMERS_H

#include "engine/cursor.h"

/* Packets have been sent. */
void note_sent(struct qp *qp, uint64_t now);
/* Packets have been acknowledged. */
void note_progress(struct qp *qp, uint64_t now);

/* note_progress() where nothing is lost. */
static inline void note_moved(struct qp *qp)
{
	struct requester *r = &qp->req;

	r->retries = qp->attr.retry_cnt;
	r->rnr_retries = qp->attr.rnr_retry;
	r->gap_seen = false;
	r->pause = PAUSE_NONE; /* what was refused stood at una: it has been taken since, in an earlier copy */
	r->moved = true;
}

/* The peer is there, and has received something out of order. */
void note_heard(struct qp *qp, uint64_t now);

/* Karn: an answer could be to either copy. Where nothing is known, the time since the first one is better than that. */
static inline void forget_timing(struct requester *r)
{
	if (r->srtt)
		r->timed_at = 0;
}

/* The requester has gone back: what it had asked for before may come for one round trip. */
void note_hole(struct requester *r, uint64_t now);
/* The packet whose round trip is measured has arrived. */
void round_trip_measured(struct requester *r, uint64_t now);
/* Nothing is in flight any more: timers stop, the cursor is at the tail. */
void retry_reset(struct qp *qp);
/* Reads UROCE_TIMERS. */
void retry_configure(struct qp *qp);
/* The timeout attribute or the link has changed. */
void retry_set_intervals(struct qp *qp);
/* How long to wait for an answer that is not lost: ns. */
uint64_t round_trip(const struct requester *r);
/* The peer has this packet. If its round trip is being measured, the measurement ends. */
void note_received(struct requester *r, struct scoreboard *b, psn_t psn, uint64_t now);
/* Whether something is in flight. */
static inline bool is_waiting(const struct requester *r)
{
	return r->una.v != r->high.v;
}
/* The time so long after `now`; NEVER: it is not to fire. */
static inline uint64_t timer_after(uint64_t now, uint64_t interval)
{
	return interval == NEVER ? NEVER : now + interval;
}
/* The transport timer; an interval of NEVER stops it. */
void restart_timer(struct requester *r, uint64_t now, uint64_t interval);
/* When to doubt that the last packet arrived, ns: well after a round trip, well before the transport timer. */
uint64_t probe_after(const struct qp *qp, uint64_t now);
/* An RNR NAK with that timer code: for how long the requester waits, ns. */
uint64_t rnr_wait(const struct requester *r, uint8_t timer);
/* Periods of the transport timer without progress after which it fires. */
uint32_t timer_periods(const struct requester *r);

#endif
