/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/congestion.h"

#include "engine/tuned.h"

static uint32_t least_window(const struct requester *r)
{
	return 2 * (r->mtu + PACKET_OVERHEAD);
}

void congestion_measured(struct requester *r, uint64_t round_trip)
{
	if (!r->least_rtt || round_trip < r->least_rtt)
		r->least_rtt = round_trip;
	r->rtt = round_trip;
	r->queued = round_trip > r->least_rtt + r->least_rtt / 4 + QUEUED;
	if (r->board && r->queued && r->window < r->threshold)
		r->threshold = r->window; /* the path is full: HyStart */
}

/* The growth of the window: fast up to near the window at the last heavy loss, then slowly past it, and faster with the
 * distance (as CUBIC): up to a quarter in each round trip, for a path without a queue. */
static uint32_t growth(const struct requester *r, uint32_t acked)
{
	uint32_t most = r->board->most;

	if (r->window < r->threshold)
		return acked;
	if (r->window < most - most / 8)
		return acked / 8;
	if (r->window < most)
		return (uint32_t)((uint64_t)acked * (4096 + PACKET_OVERHEAD) / r->window);
	return max_of(acked / 32,
		      (uint32_t)((uint64_t)acked * (r->window - max_of(most, r->threshold)) / r->window / 4));
}

/* Bytes added per round trip while packets wait: as many in a second on a long path as on one of LONG_PATH, so that
 * streams soon get even shares. */
static uint32_t added(const struct requester *r)
{
	return (4096 + PACKET_OVERHEAD) * (uint32_t)min_of(max_of(r->least_rtt / LONG_PATH, 1ull), ADDED_MOST);
}

void congestion_grow(struct requester *r, uint32_t acked)
{
	if (r->lossless)
		return;
	if (!r->queued)
		r->window += growth(r, acked);
	else if (!r->recovering)
		r->window += (uint32_t)((uint64_t)acked * added(r) / r->window);
}

/* The window after a loss: CUBIC's part (RFC 9438, 4.6), or all bytes that did not wait on the way if that is more; and
 * enough packets for the processors at both ends. */
static uint32_t shrunk(const struct requester *r, uint32_t window)
{
	uint64_t part = max_of((uint64_t)window * 7 / 10, (uint64_t)window * r->least_rtt / max_of(r->rtt, 1ull));

	return max_of(max_of((uint32_t)part, 2 * least_window(r)), min_of(window, FIRST_WINDOW / 2));
}

static void shrink(struct qp *qp)
{
	struct requester *r = &qp->req;

	if (!r->board) {
		r->threshold = max_of(r->flight / 2, 2 * least_window(r));
	} else if (r->queued) {
		r->threshold = shrunk(r, r->wqe != qp->sq.tail ? r->window : min_of(r->window, in_network(r)));
	} else {
		return;
	}
	r->window = r->threshold;
}

/* Checks after each round whether many of its packets were lost. */
static void look_at_round(struct qp *qp)
{
	struct requester *r = &qp->req;
	struct scoreboard *b = r->board;
	uint32_t sent = (uint32_t)psn_diff(r->high, b->round) + qp->resent - b->round_resent;
	uint32_t lost = b->lost_ever - b->round_lost;

	if ((uint64_t)sent * (r->mtu + PACKET_OVERHEAD) < ROUND_WINDOWS * (uint64_t)r->window)
		return;
	b->round = r->high;
	b->round_resent = qp->resent;
	b->round_lost = b->lost_ever;
	if (lost > sent / LOSSY_PART + LOSSY_LEAST) {
		b->most = r->window;
		r->window = r->threshold = max_of(r->window / 10 * 7, 2 * least_window(r));
	}
}

void note_loss(struct qp *qp, bool timeout)
{
	struct requester *r = &qp->req;

	if (r->lossless)
		return;
	if (!r->recovering) {
		r->recovering = true;
		r->recovery = r->high;
		shrink(qp);
	}
	if (r->board)
		look_at_round(qp);
	if (timeout)
		r->window = least_window(r);
}

bool window_allows_repair(const struct requester *r)
{
	return in_network(r) + r->mtu + PACKET_OVERHEAD <= r->window || in_network(r) == 0;
}
