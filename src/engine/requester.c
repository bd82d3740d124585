/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/requester.h"

#include <assert.h>

#include "base/trace.h"
#include "engine/complete.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "engine/onesided.h"
#include "engine/request.h"
#include "engine/scoreboard.h"
#include "engine/timers.h"
#include "engine/tuned.h"

/* The charge of the train that the packet at the cursor begins. The train may go on with the next work requests. */
static uint32_t train_charge(const struct qp *qp, const struct wqe *w)
{
	const struct requester *r = &qp->req;
	uint32_t train = r->train, left = w->packets - r->packet;

	if (left < train && r->wqe + 1 != qp->sq.tail)
		return train * (r->mtu + PACKET_OVERHEAD);
	return wqe_charge(qp, w, r->packet, r->packet + min_of(train, left));
}

/* True if the window has room for the packet at the cursor. A train begins only when the window has room for all of it,
 * provided that the window is at least twice as wide: then this waits for one more ACK at most. Otherwise the window's
 * edge would cut trains. */
static bool requester_window_allows(const struct qp *qp, const struct wqe *w, bool begins)
{
	const struct requester *r = &qp->req;
	uint32_t sent = in_network(r), room = r->window > sent ? r->window - sent : 0;
	uint32_t need = wqe_charge(qp, w, r->packet, r->packet + wqe_span(qp, w, r->packet));

	if ((uint32_t)psn_diff(r->next, r->una) >= SELECTIVE_PSNS)
		return false;
	if (sent == 0)
		return true;
	if (unlikely(r->reads)) /* a READ is long */
		need = min_of(need, max_of(r->window / 2, r->mtu + PACKET_OVERHEAD));
	if (begins && w->opcode != IBV_WR_RDMA_READ && train_charge(qp, w) <= r->window / 2)
		need = max_of(need, train_charge(qp, w));
	return need <= room;
}

/* True if a tx batch holds a whole train of packets like the one at the cursor. */
static bool is_small(const struct wqe *w)
{
	return w->packets == 1 && w->length <= TRAIN / BATCH_PACKETS;
}

/* True if nothing more fits into the window after the packets at the cursor, which have this charge: then the
 * connection waits for their ACK. */
static bool window_ends(const struct qp *qp, uint32_t charge, bool train_ends)
{
	const struct requester *r = &qp->req;
	uint32_t packet = r->mtu + PACKET_OVERHEAD, need = train_ends ? r->train * packet : packet;

	if (need > r->window / 2)
		need = packet;
	return (uint64_t)in_network(r) + charge + need > r->window;
}

static void start_timing(struct requester *r, psn_t psn, bool new, uint64_t now)
{
	if (new && !r->timed_at && !r->lossless) {
		r->timed = psn;
		r->timed_at = now;
	}
}

/* True if the request at the cursor waits for those before it, so that it can be executed as a one-sided operation. A
 * READ would wait for an answer in any case; a WRITE of one packet is sent sooner. */
static bool waits_to_be_onesided(const struct qp *qp, const struct wqe *w)
{
	const struct requester *r = &qp->req;

	return w->state == WQE_POSTED && r->wqe != qp->sq.head && (wqe_wants_response(w) || w->packets > 1) &&
	       onesided_possible(qp, w) && (int32_t)(r->wqe - r->hasty) >= 0;
}

/* Executes the request at the cursor as a one-sided operation. False: it goes out as packets. */
static bool done_onesided(struct qp *qp, const struct wqe *w)
{
	struct requester *r = &qp->req;

	if (w->state != WQE_POSTED || r->wqe != qp->sq.head || !onesided_possible(qp, w))
		return false;
	if ((hooks_any() && hooks_onesided(qp, w)) || !onesided_perform(qp, w)) {
		r->hasty = r->wqe + (1u << r->refused);
		r->refused = min_of(r->refused + 1, HASTY_MOST);
		return false;
	}
	if (hooks_any())
		onesided_done_wqe(qp, w, r->wqe);
	r->wqe++;
	complete_head(qp, IBV_WC_SUCCESS);
	return true;
}

/* True if the packets at the cursor request an ACK: often enough that the window never runs dry, and at the end of the
 * last posted message. One ACK covers the messages before it too. In two-way traffic, a message that is not signalled
 * requests an ACK only now and then: the ACK would be a second packet beside the peer's next message. If no later
 * packet requests one, a probe does. */
NO_LOCK_ANALYSIS /* called with qp->lock held, like all functions here */
	static bool
	requester_asks(const struct qp *qp, uint64_t now, const struct wqe *w, uint32_t span, uint32_t charge,
		       bool train_ends)
{
	const struct requester *r = &qp->req;

	if (r->unasked + charge >= r->window / 4)
		return true;
	if (r->packet + span == w->packets) {
		if (wqe_wants_response(w) || r->lossless || r->next.v != r->high.v || now - r->asked_at >= ASK_INTERVAL)
			return true;
		if (r->wqe + 1 == qp->sq.tail && (!r->peer_spoke || (w->flags & IBV_SEND_SIGNALED) || qp->sig_all))
			return true;
	}
	return !engine_awaits_answer(qp) && window_ends(qp, charge, train_ends);
}

static void note_asked(struct requester *r, psn_t end, uint64_t now)
{
	requester_asked(r, end);
	r->asked_at = now;
}

/* Sends the packet at the cursor. False: it must wait. */
static bool requester_send_next(struct qp *qp, struct tx_batch *batch)
{
	struct requester *r = &qp->req;
	struct wqe *w = sq_at(&qp->sq, r->wqe);
	uint32_t span, charge, place; /* place in its train */
	bool last, new, ask;

	if (waits_to_be_onesided(qp, w))
		return false;
	if (done_onesided(qp, w))
		return true;
	if (w->state == WQE_ERROR || (w->state == WQE_POSTED && !pick_up(qp, w)))
		return false;
	if (w->packets == 0) {
		r->wqe++;
		complete_local(qp);
		return true;
	}
	span = wqe_span(qp, w, r->packet);
	charge = wqe_charge(qp, w, r->packet, r->packet + span);
	place = batch->packets % r->train;
	if (place == 0 && batch->packets + r->train > max_of(r->train, (uint32_t)BATCH_TRAINS) && !is_small(w))
		return false; /* the next tx batch has room for all of it */
	if (!requester_window_allows(qp, w, place == 0))
		return false;
	if (wqe_wants_response(w) && r->rd_count >= qp->attr.max_rd_atomic)
		return false;
	last = r->packet + span == w->packets;
	ask = requester_asks(qp, batch->now, w, span, charge, place + 1 == r->train);
	if (!request_fits(qp, batch, w, r->packet) || !request_packet(qp, batch, w, r->wqe, r->packet, r->next, ask))
		return false;

	new = r->next.v == r->high.v;
	r->unasked += charge;
	if (ask || wqe_wants_response(w)) {
		note_asked(r, psn_add(r->next, span), batch->now);
		start_timing(r, r->next, new, batch->now); /* of a READ, the first response */
	}
	requester_sent(r, span, charge);
	r->packet += span;
	if (wqe_wants_response(w))
		r->rd_last[(r->rd_head + r->rd_count++) % HCA_MAX_RD_ATOMIC] = psn_add(r->next, -1u);
	if (last)
		requester_sent_whole(qp);
	return true;
}

/* requester_send_next() for a packet in the middle of a message and of a train, right after the previous packet.
 * The two differ only in the PSN and in the addresses. False: requester_send_next() must do it. */
NO_LOCK_ANALYSIS /* called with qp->lock held, like all functions here */
	static bool
	send_like_last(struct qp *qp, struct tx_batch *batch)
{
	struct requester *r = &qp->req;
	const struct wqe *w = sq_at(&qp->sq, r->wqe);
	uint32_t charge = r->mtu + PACKET_OVERHEAD, place = batch->packets % r->train;
	struct tx *tx;
	bool in_pieces;

	if (r->packet == 0 || place == 0 || r->lossless)
		return false;
	in_pieces = is_in_pieces(w);
	if ((r->packet == 1 && !in_pieces) || r->packet + 1 >= w->packets)
		return false;
	if (w->num_sge != 1 || (w->flags & IBV_SEND_INLINE) || w->by_reference || wqe_wants_response(w))
		return false;
	/* the first condition is requester_window_allows() for such a packet */
	if (in_network(r) + charge > r->window || requester_asks(qp, batch->now, w, 1, charge, place + 1 == r->train))
		return false;
	tx = batch_repeat(qp, batch, w->sge, (uint64_t)r->packet * r->mtu, r->mtu);
	if (!tx)
		return false;
	if (in_pieces)
		tx->packet.va += r->mtu;
	r->unasked += charge;
	requester_sent(r, 1, charge);
	r->packet++;
	return true;
}

/* Sends the last packet again: the answer tells whether it or its ACK was lost. */
static void send_probe(struct qp *qp, struct tx_batch *batch)
{
	struct requester *r = &qp->req;
	uint32_t position = r->packet ? r->wqe : r->wqe - 1;
	struct wqe *w;

	r->probe_wanted = false;
	if (r->next.v == r->una.v)
		return;
	while ((w = sq_at(&qp->sq, position))->packets == 0)
		position--;
	if (!wqe_wants_response(w))
		request_packet(qp, batch, w, position, (r->packet ? r->packet : w->packets) - 1, psn_add(r->next, -1u),
			       true);
	note_asked(r, r->next, batch->now);
	forget_timing(r);
}

static bool requester_may_send(const struct qp *qp)
{
	return (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) && !qp->req.pause;
}

/* The peer empties its socket once in DRAINED at least: a long path holds more. */
void requester_limit(struct requester *r, uint32_t budget)
{
	uint64_t limit = max_of(budget, r->mtu + PACKET_OVERHEAD);

	if (unlikely(r->least_rtt > DRAINED))
		limit = min_of(limit * (r->least_rtt / DRAINED), (uint64_t)LOSSLESS_WINDOW);
	r->window = min_of(r->window, (uint32_t)limit);
}

/* The state changes of requester_send_next() for requests of one packet that begin a train. */
void requester_sends_only(struct qp *qp, struct packet *packet, uint32_t count, uint64_t now)
{
	struct requester *r = &qp->req;
	uint32_t place = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct wqe *w = sq_at(&qp->sq, r->wqe);
		uint32_t charge = w->length + PACKET_OVERHEAD;

		place = place == r->train ? 1 : place + 1;
		packet[i].ack_request = requester_asks(qp, now, w, 1, charge, place == r->train);
		r->unasked += charge;
		if (packet[i].ack_request) {
			note_asked(r, psn_add(r->next, 1), now);
			start_timing(r, r->next, true, now);
		}
		requester_sent(r, 1, charge);
		requester_sent_whole(qp);
	}
	note_sent(qp, now);
}

/* Sends lost packets before new ones. False: not all have been sent. */
static bool requester_repair(struct qp *qp, struct tx_batch *batch)
{
	uint32_t before = batch->packets;
	bool all;

	scoreboard_settle(qp);
	all = scoreboard_repair(qp, batch);
	if (batch->packets != before)
		note_sent(qp, batch->now);
	return all;
}

bool requester_run(struct qp *qp, struct tx_batch *batch)
{
	struct requester *r = &qp->req;
	uint32_t before;

	if (!requester_may_send(qp))
		return false;
	requester_limit(r, batch->budget);
	if (unlikely(r->board) && !requester_repair(qp, batch))
		return batch->packets && scoreboard_may_repair(qp);
	if (r->probe_wanted)
		send_probe(qp, batch);
	before = batch->packets;
	while (r->wqe != qp->sq.tail && requester_send_next(qp, batch))
		while (send_like_last(qp, batch))
			;
	if (batch->packets != before && requester_may_send(qp)) /* the QP may have failed meanwhile */
		note_sent(qp, batch->now);
	return r->wqe != qp->sq.tail && batch->packets && requester_can_run(qp);
}

bool requester_can_run(const struct qp *qp)
{
	const struct requester *r = &qp->req;
	const struct wqe *w = sq_at(&qp->sq, r->wqe);

	if (!requester_may_send(qp))
		return false;
	if (scoreboard_has_lost(r))
		return scoreboard_may_repair(qp); /* nothing leaves before lost packets */
	if (r->probe_wanted)
		return true;
	if (r->wqe == qp->sq.tail || w->state == WQE_ERROR || waits_to_be_onesided(qp, w))
		return false;
	if (w->state == WQE_POSTED &&
	    (qp->state == IBV_QPS_SQD || r->changing || ((w->flags & IBV_SEND_FENCE) && r->rd_count)))
		return false;
	if (wqe_wants_response(w) && r->rd_count && r->rd_count >= qp->attr.max_rd_atomic)
		return false;
	return requester_window_allows(qp, w, true);
}

void engine_start_over(struct qp *qp)
{
	struct requester *r = &qp->req;

	retry_reset(qp);
	note_moved(qp);
	r->wqe = qp->sq.head;
	for (uint32_t i = r->wqe; i != qp->sq.tail; i++) {
		struct wqe *w = sq_at(&qp->sq, i);

		if (w->state == WQE_PROCESSING && w->packets) /* a local request is done, and waits only for its turn */
			w->state = WQE_POSTED;
	}
}

bool engine_change_link(struct qp *qp, uint32_t mtu)
{
	struct requester *r = &qp->req;

	r->changing = r->una.v != r->high.v || r->packet;
	if (r->changing)
		return false;
	r->mtu = mtu ?: qp->mtu;
	r->train = train_of(r->mtu);
	assert(psn_equal(r->una, r->next));
	r->lossless = mtu;
	retry_set_intervals(qp);
	r->window = mtu ? LOSSLESS_WINDOW : FIRST_WINDOW;
	r->threshold = UINT32_MAX;
	if (mtu)
		scoreboard_stop(qp); /* a lossless link needs no scoreboard */
	else
		scoreboard_clear(qp);
	engine_set_lane(qp);
	for (uint32_t i = r->wqe; i != qp->sq.tail; i++)
		sq_at(&qp->sq, i)->packets = wqe_packets(qp, sq_at(&qp->sq, i));
	return true;
}
