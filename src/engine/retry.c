/* SPDX-License-Identifier: BSD-2-Clause */
/* Time and loss: the transport timer (IBTA 9.7.6.1), go-back-N, receiver-not-ready; and what the specification
 * leaves open: round-trip times, tail-loss probes. */
#include "base/config.h"
#include "base/trace.h"
#include "engine/reassembly.h"

#define TIMEOUT_MIN (5 * MSEC) /* below this, scheduling looks like loss */
#define PROBE_MIN   (2 * MSEC)
#define PROBES_MAX  8
#define QUICK_MIN   (500 * USEC) /* where a probe that was not needed costs one packet */
#define READS_MIN \
	(10 * MSEC)   /* of several READs the answers to later ones show a loss; the peer's processor may be busy */
#define READ_PROBES 4 /* then a READ is asked for as a whole */
#define ROUND_MIN   (100 * USEC)

/* UROCE_TIMERS. IBTA 9.7.6.1.3 lets the transport timer fire between T and 4 T; 9.7.5.2.8 gives the least time of the
 * RNR timer alone. Probes find losses, so the transport timer only tells dead peers from live ones; where processors
 * are scarce, a live peer can be silent for long: usually it fires late. If lossless, it is not restarted at each ACK,
 * but when it fires (see `moved`), so it fires up to one period late. */
static const struct timer_range {
	uint8_t times, first; /* of T, until it fires; the same for requests that have not timed out yet */
	uint8_t periods;      /* in so many pieces */
	uint8_t rnr;	      /* times the RNR timer */
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

/* Whether something is in flight. */
static bool is_waiting(const struct requester *r)
{
	return r->una.v != r->high.v;
}

static uint64_t retry_after(uint64_t now, uint64_t interval)
{
	return interval == NEVER ? NEVER : now + interval;
}

/* The transport timer; an interval of NEVER stops it. */
static void restart_timer(struct requester *r, uint64_t now, uint64_t interval)
{
	r->timeout_at = retry_after(now, interval);
	r->idle = 0;
}

/* When to doubt that the last packet arrived: well after a round trip, well before the transport timer. */
static uint64_t probe_after(const struct qp *qp, uint64_t now)
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
		r->timeout_at = retry_after(now, r->first_interval);
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

/* What is acknowledged only as a hole before it has been filled tells nothing. */
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
	r->timeout_at = waiting ? retry_after(now, r->interval) : NEVER;
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

void go_back(struct qp *qp, psn_t psn, enum retry_reason reason)
{
	struct requester *r = &qp->req;
	uint32_t position = qp->sq.head, packet = r->acked, left = (uint32_t)psn_diff(psn, r->una), charge = 0;
	struct wqe *w = sq_at(&qp->sq, position);

	while (left && packet + left >= w->packets) {
		charge += wqe_charge(qp, w, packet, w->packets);
		left -= w->packets - packet;
		packet = 0;
		w = sq_at(&qp->sq, ++position);
	}
	if (left)
		charge += wqe_charge(qp, w, packet, packet + left);
	r->wqe = position;
	r->packet = packet + left;
	qp->resent += (uint32_t)psn_diff(r->next, psn);
	r->next = psn;
	r->flight = charge;
	while (r->rd_count && psn_diff(r->rd_last[(r->rd_head + r->rd_count - 1) % HCA_MAX_RD_ATOMIC], psn) >= 0)
		r->rd_count--;
	forget_timing(r);
	r->unasked = 0;
	r->probe_wanted = false;
	scoreboard_clear(qp);
	trace(retry, qp->base.qp_num, position, psn.v, reason, r->retries, 0);
}

void note_hole(struct requester *r, uint64_t now)
{
	r->hole_until = now + round_trip(r);
	if (r->reads)
		r->reads->until = r->hole_until;
}

void retry_on_path(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	if (!is_reliable(qp) || !is_waiting(r))
		return;
	go_back(qp, r->una, RETRY_PATH);
	r->gap_seen = false;
	note_hole(r, now);
	if (r->pause == PAUSE_RNR)
		return;
	restart_timer(r, now, r->interval);
	r->probe_at = NEVER;
}

bool spend_retry(struct qp *qp)
{
	if (qp->req.retries == 0) {
		if (migration_rescues(qp))
			return true;
		qp_count(qp, HCA_RETRIES_SPENT);
		fail_head(qp, IBV_WC_RETRY_EXC_ERR);
		return false;
	}
	qp->req.retries--;
	return true;
}

void wait_for_receiver(struct qp *qp, psn_t psn, uint8_t timer, uint64_t now)
{
	struct requester *r = &qp->req;

	qp_count(qp, HCA_RNR_NAKS);
	if (qp->attr.rnr_retry != 7) { /* 7: no limit */
		if (r->rnr_retries == 0) {
			qp_count(qp, HCA_RNR_RETRIES_SPENT);
			fail_head(qp, IBV_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		r->rnr_retries--;
	}
	go_back(qp, psn, RETRY_RNR);
	r->pause = PAUSE_RNR;
	r->pause_until = now + rnr_timer[timer & SYNDROME_VALUE] * 10 * USEC * range_of(r)->rnr;
	r->timeout_at = r->probe_at = NEVER;
	r->idle = 0;
}

static void time_out(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	qp_count(qp, HCA_TIMEOUTS);
	if (!spend_retry(qp))
		return;
	note_loss(qp, true);
	/* what is known of the peer is believed once */
	if (r->retries + 1 != qp->attr.retry_cnt || r->rd_count || !scoreboard_lose_all(qp, false))
		go_back(qp, r->una, RETRY_TIMEOUT);
	r->gap_seen = false;
	note_hole(r, now);
	restart_timer(r, now, r->interval);
	r->probe_at = NEVER;
}

static void transport_timer(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	if (r->moved)
		r->idle = 0;
	if (++r->idle >= range_of(r)->periods && !r->moved) {
		time_out(qp, now);
		return;
	}
	r->moved = false;
	r->timeout_at = retry_after(now, r->first_interval);
}

static void retry_probe(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	/* The last packet alone tells the most for the least, except if the peer has reported a gap already (it
	 * does so once, so it would be silent now), or if a response is missing. A peer that knows selective
	 * acknowledgements is not silent; what is missing before what it has is lost. */
	if (r->rd_count && r->probes < READ_PROBES && reassembly_probe(qp, now)) {
		scoreboard_lose_all(qp, true);
	} else if (r->rd_count || (!r->board && (r->gap_seen || r->probes))) {
		reassembly_ignored(r);
		go_back(qp, r->una, RETRY_PROBE);
		note_hole(r, now);
	} else {
		scoreboard_lose_all(qp, true);
		r->probe_wanted = true;
	}
	r->probes++;
	r->probe_at = probe_after(qp, now);
}

void engine_expire(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	patience_expire(qp, now);
	if (now >= flow_deadline(qp))
		r->held = NULL; /* the next run asks again, or waits no longer */
	if (r->pause && now >= r->pause_until)
		r->pause = PAUSE_NONE;
	if (!is_waiting(r))
		restart_timer(r, now, NEVER);
	if (now >= r->timeout_at)
		transport_timer(qp, now);
	else if (now >= r->probe_at)
		retry_probe(qp, now);
}

void engine_postpone(struct qp *qp, uint64_t now)
{
	if (now >= qp->req.timeout_at)
		restart_timer(&qp->req, now, qp->req.interval);
}

uint64_t engine_deadline(const struct qp *qp)
{
	const struct requester *r = &qp->req;
	uint64_t when = is_waiting(r) ? min_of(r->timeout_at, r->probe_at) : NEVER;

	if (unlikely(r->held))
		return flow_deadline(qp);
	if (unlikely(qp->resp.look_at))
		when = min_of(when, qp->resp.look_at);
	return r->pause ? min_of(when, r->pause_until) : when;
}

bool engine_expects_success(const struct qp *qp)
{
	const struct requester *r = &qp->req;

	return is_reliable(qp) && (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       !psn_equal(r->una, r->high) && r->pause != PAUSE_RNR && r->retries == qp->attr.retry_cnt;
}
