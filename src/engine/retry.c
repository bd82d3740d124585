/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/retry.h"

#include "base/trace.h"
#include "engine/alternate.h"
#include "engine/complete.h"
#include "engine/reassembly.h"
#include "engine/scoreboard.h"
#include "engine/timers.h"
#include "engine/tuned.h"

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
		if (migration_rescues(qp) || settles_first(qp))
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
		if (r->rnr_retries == 0 && !settles_first(qp)) {
			qp_count(qp, HCA_RNR_RETRIES_SPENT);
			fail_head(qp, IBV_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		r->rnr_retries -= r->rnr_retries != 0;
	}
	go_back(qp, psn, RETRY_RNR);
	r->pause = PAUSE_RNR;
	r->pause_until = now + rnr_wait(r, timer);
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
	/* reports of the peer are trusted once */
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
	if (++r->idle >= timer_periods(r) && !r->moved) {
		time_out(qp, now);
		return;
	}
	r->moved = false;
	r->timeout_at = timer_after(now, r->first_interval);
}

static void retry_probe(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	/* Sends the last packet alone, which tells most for least, except if the peer has reported a gap already (it
	 * reports a gap once, so it would be silent now), or if a response is missing. A peer that knows selective
	 * acknowledgements is not silent; packets missing before those that it has are lost. */
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

void retry_expire(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	if (!is_waiting(r))
		restart_timer(r, now, NEVER);
	if (now >= r->timeout_at)
		transport_timer(qp, now);
	else if (now >= r->probe_at)
		retry_probe(qp, now);
}
