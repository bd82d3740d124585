/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/timers.h"

#include "base/config.h"
#include "engine/tuned.h"

/* UROCE_TIMERS. IBTA 9.7.6.1.3 lets the transport timer fire between T and 4 T; 9.7.5.2.8 gives the least time of the
 * RNR timer alone. Probes find losses, so the transport timer only tells dead peers from live ones; where processors
 * are scarce, a live peer can be silent for long: usually it fires late. If lossless, it is not restarted at each ACK,
 * but when it fires (see `moved`), so it fires up to one period late. */
static const struct timer_range {
	uint8_t times, first; /* multiples of T until it fires; the same for requests that have not timed out yet */
	uint8_t periods;      /* number of periods of that time */
	uint8_t rnr;	      /* multiples of the RNR timer */
} timer_range[][2] = {
	/* usual */ {{3, 3, 1, 1}, {3, 2, 1, 1}},
	/* first */ {{1, 1, 1, 1}, {1, 1, 1, 1}},
	/* last  */ {{4, 4, 1, 4}, {4, 4, 4, 4}},
};

/* IBTA 9.7.5.2.8, table 45: RNR NAK timer codes, in units of 10 us. */
static const uint32_t rnr_timer[32] = {65536, 1,    2,	  3,	4,    6,     8,	    12,	   16,	  24,	32,
				       48,    64,   96,	  128,	192,  256,   384,   512,   768,	  1024, 1536,
				       2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

static const struct timer_range *range_of(const struct requester *r)
{
	return &timer_range[r->timers][r->lossless];
}

static uint64_t timeout_times(const struct qp *qp, uint64_t times, uint64_t periods)
{
	return qp->attr.timeout ? max_of(times * 4096 << qp->attr.timeout, TIMEOUT_MIN) / periods : NEVER;
}

void retry_configure(struct qp *qp)
{
	qp->req.timers = (uint8_t)config_enum(CONFIG_TIMERS);
}

void retry_set_intervals(struct qp *qp)
{
	const struct timer_range *range = range_of(&qp->req);

	qp->req.interval = timeout_times(qp, range->times, range->periods);
	qp->req.first_interval = timeout_times(qp, range->first, range->periods);
	qp->req.idle = 0;
}

void restart_timer(struct requester *r, uint64_t now, uint64_t interval)
{
	r->timeout_at = timer_after(now, interval);
	r->idle = 0;
}

uint64_t probe_after(const struct qp *qp, uint64_t now)
{
	const struct requester *r = &qp->req;
	uint64_t interval = r->srtt ? 2 * r->srtt + 4 * r->rttvar : 10 * MSEC, timeout = r->interval;

	if (interval < PROBE_MIN && (!qp->resp.peer_is_uroce || (unlikely(r->rd_count) && !reassembly_can_probe(r))))
		interval = PROBE_MIN;
	if (unlikely(r->rd_count > 1) && !r->reads && interval < READS_MIN)
		interval = READS_MIN;
	interval = max_of(interval, QUICK_MIN) << r->probes;
	return r->probes < PROBES_MAX && !r->lossless && interval < timeout / 2 ? now + interval : NEVER;
}

uint64_t round_trip(const struct requester *r)
{
	return r->srtt ? max_of(r->srtt + 4 * r->rttvar, ROUND_MIN) : MSEC;
}

void retry_reset(struct qp *qp)
{
	struct requester *r = &qp->req;

	r->timeout_at = r->probe_at = NEVER;
	r->idle = 0;
	r->probe_wanted = r->gap_seen = false;
	r->pause = PAUSE_NONE;
	r->probes = 0;
	r->timed_at = 0;
	r->rd_count = 0;
	r->next = r->high = r->asked = r->una;
	r->asked_at = 0;
	r->peer_spoke = false;
	r->wqe = qp->sq.tail;
	r->packet = r->acked = 0;
	r->flight = 0;
	r->held = NULL;
	scoreboard_clear(qp);
}

void note_sent(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	if (r->timeout_at == NEVER)
		r->timeout_at = timer_after(now, r->first_interval);
	r->probe_at = probe_after(qp, now);
}

void round_trip_measured(struct requester *r, uint64_t now)
{
	uint64_t rtt = now - r->timed_at, delta;

	r->timed_at = 0;
	congestion_measured(r, rtt);
	if (!r->srtt) {
		r->srtt = rtt;
		r->rttvar = rtt / 2;
		return;
	}
	delta = rtt > r->srtt ? rtt - r->srtt : r->srtt - rtt;
	r->rttvar += (delta >> 2) - (r->rttvar >> 2);
	r->srtt += (rtt >> 3) - (r->srtt >> 3);
}

void note_received(struct requester *r, struct scoreboard *b, psn_t psn, uint64_t now)
{
	bool measured =
		r->timed_at && psn_equal(psn, r->timed) && !set_has(b, &b->has, psn) && !set_has(b, &b->again, psn);

	board_received(b, psn, r->least_rtt, now);
	if (measured)
		round_trip_measured(r, now);
}

/* Measures a round trip. An acknowledgement that waited for a hole before it tells nothing. */
static void round_trip_passed(struct requester *r, uint64_t now)
{
	if (r->board && r->recovering && r->srtt)
		r->timed_at = 0;
	else
		round_trip_measured(r, now);
}

void note_progress(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;
	bool waiting = is_waiting(r);

	note_moved(qp);
	r->probes = 0;
	if (r->lossless)
		return;
	r->moved = false;
	if (r->timed_at && psn_diff(r->una, r->timed) > 0)
		round_trip_passed(r, now);
	if (r->recovering && psn_diff(r->una, r->recovery) >= 0)
		r->recovering = false;
	r->timeout_at = waiting ? timer_after(now, r->interval) : NEVER;
	r->probe_at = waiting ? probe_after(qp, now) : NEVER;
}

void note_heard(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	if (!is_waiting(r))
		return;
	restart_timer(r, now, r->interval);
	r->probe_at = probe_after(qp, now);
}

void note_hole(struct requester *r, uint64_t now)
{
	r->hole_until = now + round_trip(r);
	if (r->reads)
		r->reads->until = r->hole_until;
}

uint64_t rnr_wait(const struct requester *r, uint8_t timer)
{
	return rnr_timer[timer & SYNDROME_VALUE] * 10 * USEC * range_of(r)->rnr;
}

uint32_t timer_periods(const struct requester *r)
{
	return range_of(r)->periods;
}

void engine_postpone(struct qp *qp, uint64_t now)
{
	if (now >= qp->req.timeout_at)
		restart_timer(&qp->req, now, qp->req.interval);
}
