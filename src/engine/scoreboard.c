/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/reassembly.h"

#include <stdlib.h>
#include <string.h>

#include "base/trace.h"
#include "wire/sack.h"

/* A packet is lost if the peer has one that was sent so many packets later: those that come sooner may have overtaken
 * it (RFC 6675, DupThresh). */
#define REORDERING 3
/* A peer that keeps nothing, as it has no memory, has dropped all that came after a gap. One NAK is no sign of that:
 * the selective acknowledgement beside it may be lost or late. */
#define NAKS_ALONE 2

static void set_clear(struct psn_set *s)
{
	if (s->count)
		memset(s, 0, sizeof(*s));
}

void board_clear(struct scoreboard *b, psn_t base)
{
	b->base = b->top = base;
	set_clear(&b->has);
	set_clear(&b->lost);
	set_clear(&b->again);
}

void scoreboard_clear(struct qp *qp)
{
	if (likely(!qp->req.board))
		return;
	board_clear(qp->req.board, qp->req.una);
	if (qp->req.reads)
		reassembly_clear(qp);
	qp->req.absent = 0;
}

void scoreboard_stop(struct qp *qp)
{
	reassembly_stop(qp);
	free(qp->req.board);
	qp->req.board = NULL;
	qp->req.absent = 0;
}

static bool board_is_clear(const struct scoreboard *b)
{
	return !b->has.count && !b->lost.count && !b->again.count;
}

void board_advance(struct scoreboard *b, psn_t una)
{
	if (board_is_clear(b) || (uint32_t)psn_diff(una, b->base) >= SELECTIVE_PSNS) {
		board_clear(b, una);
		return;
	}
	for (; !psn_equal(b->base, una); b->base = psn_add(b->base, 1)) {
		set_remove(&b->has, b->base);
		set_remove(&b->lost, b->base);
		set_remove(&b->again, b->base);
	}
	if (psn_diff(b->top, una) < 0)
		b->top = una;
}

/* By the number of packets, as most are of one size. READs that have arrived are on their way back, unless they wait
 * behind a gap. */
static uint32_t count_absent(const struct requester *r)
{
	uint32_t absent = r->board->lost.count;

	if (!r->rd_count || absent)
		absent += r->board->has.count;
	if (r->reads)
		absent += r->reads->board.has.count + r->reads->board.lost.count;
	return absent;
}

void set_absent(struct requester *r)
{
	uint32_t sent = (uint32_t)psn_diff(r->next, r->una), absent = count_absent(r);
	r->absent = sent ? (uint32_t)((uint64_t)r->flight * min_of(absent, sent) / sent) : 0;
}

void scoreboard_settle(struct qp *qp)
{
	struct requester *r = &qp->req;

	board_advance(r->board, r->una);
	if (r->reads)
		reassembly_settle(r);
	set_absent(r);
}

/* The end of what the board can say something of. */
static psn_t board_end(const struct requester *r)
{
	return psn_add(r->una, min_of((uint32_t)psn_diff(r->next, r->una), SELECTIVE_PSNS));
}

void board_lose(struct scoreboard *b, psn_t psn)
{
	set_remove(&b->again, psn);
	set_add(&b->lost, psn);
}

bool board_overtaken(const struct scoreboard *b, psn_t psn)
{
	uint32_t place = place_of_psn(psn);

	if (!set_has(&b->again, psn))
		return psn_diff(b->top, psn) > REORDERING;
	return psn_diff(b->top, b->sent_at[place]) >= REORDERING ||
	       (int32_t)(b->top_turn - b->turn[place]) >= REORDERING;
}

/* A READ is one packet, which is lost once. */
static void lose_request(struct qp *qp, psn_t psn)
{
	struct scoreboard *b = qp->req.board;
	uint32_t position, packet;
	bool counts = true;

	if (qp->req.rd_count) {
		const struct wqe *w = find_packet(qp, psn, &position, &packet);

		counts = !packet || requester_span_of(qp, w, packet - 1) == 1;
	}
	b->lost_ever += counts;
	board_lose(b, psn);
}

/* Finds what is lost in [first, end), of which the peer has just told. Of other packets it may have told before those
 * came that were sent again after them. */
static bool find_lost(struct qp *qp, psn_t first, psn_t end)
{
	struct requester *r = &qp->req;
	struct scoreboard *b = r->board;
	uint32_t before = b->lost.count;

	if (psn_diff(first, r->una) < 0)
		first = r->una;
	if (psn_diff(end, b->top) > 0)
		end = b->top;
	for (psn_t psn = first; psn_diff(end, psn) > 0; psn = psn_add(psn, 1)) {
		uint32_t place = place_of_psn(psn), word = place / 64;

		if (place % 64 == 0 && !~(b->has.bits[word] | b->lost.bits[word]))
			psn = psn_add(psn, 63);
		else if (!set_has(&b->has, psn) && !set_has(&b->lost, psn) && board_overtaken(b, psn))
			lose_request(qp, psn);
	}
	return b->lost.count != before;
}

void board_turn(const struct requester *r, struct scoreboard *b, psn_t psn, uint64_t now)
{
	uint32_t place = place_of_psn(psn), since = (uint32_t)(now / USEC) - b->again_at[place];

	/* what comes sooner is the first copy, which was late */
	if (set_has(&b->again, psn) && (int32_t)(b->turn[place] - b->top_turn) > 0 && since >= r->least_rtt / 2 / USEC)
		b->top_turn = b->turn[place];
}

void board_again(struct scoreboard *b, psn_t psn, psn_t next, uint64_t now)
{
	set_add(&b->again, psn);
	b->again_at[place_of_psn(psn)] = (uint32_t)(now / USEC);
	b->sent_at[place_of_psn(psn)] = next;
	b->turn[place_of_psn(psn)] = b->turns;
}

void board_received(struct requester *r, struct scoreboard *b, psn_t psn, uint64_t now)
{
	if (set_has(&b->has, psn))
		return;
	set_add(&b->has, psn);
	set_remove(&b->lost, psn);
	if (r->timed_at && psn_equal(psn, r->timed) && !set_has(&b->again, psn))
		round_trip_measured(r, now);
	if (psn_diff(psn, b->top) >= 0)
		b->top = psn_add(psn, 1);
	board_turn(r, b, psn, now);
}

bool make_board(struct requester *r)
{
	if (!r->board)
		r->board = calloc(1, sizeof(*r->board));
	if (!r->board)
		return false;
	board_advance(r->board, r->una);
	return true;
}

void completer_selective(struct qp *qp, const struct packet *p, uint64_t now)
{
	struct requester *r = &qp->req;
	int32_t sent = psn_diff(r->high, r->una), ahead = psn_diff(p->psn, r->una);
	struct sack sack;
	psn_t end;

	if (r->lossless || ahead < 0 || ahead > sent || !sack_parse(&sack, p->payload, p->length))
		return; /* old, or not from the peer */
	trace(acknowledged, qp->base.qp_num, p->psn.v, SYNDROME_NAK, 0, p->opcode, 0);
	/* False: the response to a READ is missing. It may be on its way, and if not, an ACK or a NAK will tell. */
	completer_acknowledge(qp, (uint32_t)ahead, now);
	completer_settle(qp);
	if (qp->state == IBV_QPS_ERR || !make_board(r))
		return;
	r->board->naks_alone = 0;
	end = board_end(r);
	for (psn_t psn = r->una; psn_diff(p->psn, psn) > 0 && psn_diff(end, psn) > 0; psn = psn_add(psn, 1))
		board_received(r, r->board, psn, now);
	for (uint32_t i = 0; i < sack.count; i++) {
		psn_t psn = psn_add(sack.first, i);

		if (sack_has(&sack, i) && psn_diff(psn, r->una) >= 0 && psn_diff(end, psn) > 0)
			board_received(r, r->board, psn, now);
	}
	note_heard(qp, now);
	if (find_lost(qp, sack.first, psn_add(sack.first, sack.count)))
		note_loss(qp, false);
	set_absent(r);
}

struct wqe *find_packet(struct qp *qp, psn_t psn, uint32_t *position, uint32_t *packet)
{
	struct wqe *w = sq_at(&qp->sq, qp->sq.head);

	*position = qp->sq.head;
	*packet = qp->req.acked + (uint32_t)psn_diff(psn, qp->req.una);
	while (*packet >= w->packets) {
		*packet -= w->packets;
		w = sq_at(&qp->sq, ++*position);
	}
	return w;
}

psn_t board_first_lost(const struct scoreboard *b, psn_t una)
{
	psn_t psn = una;

	while (!set_has(&b->lost, psn)) {
		uint32_t place = place_of_psn(psn);

		psn = psn_add(psn, place % 64 == 0 && !b->lost.bits[place / 64] ? 64 : 1);
	}
	return psn;
}

bool window_allows_repair(const struct requester *r)
{
	return in_network(r) + r->mtu + PACKET_OVERHEAD <= r->window || in_network(r) == 0;
}

bool scoreboard_misses(const struct requester *r)
{
	return r->board->lost.count || (r->reads && r->reads->board.lost.count);
}

bool scoreboard_may_repair(const struct qp *qp)
{
	const struct requester *r = &qp->req;

	return scoreboard_has_lost(r) && (window_allows_repair(r) || (r->reads && r->reads->urgent));
}

bool scoreboard_repair(struct qp *qp, struct tx_batch *batch)
{
	struct requester *r = &qp->req;
	struct scoreboard *b = r->board;

	if (r->reads && !reassembly_ask(qp, batch))
		return false;
	while (b->lost.count) {
		psn_t psn = board_first_lost(b, r->una);
		uint32_t position, packet, span;
		struct wqe *w = find_packet(qp, psn, &position, &packet);
		bool ask;

		if (w->state == WQE_ERROR) { /* it will fail when those before it are complete */
			set_remove(&b->lost, psn);
			continue;
		}
		if (!window_allows_repair(r) || !request_fits(qp, batch, w, packet))
			return false;
		span = requester_span_of(qp, w, packet);
		ask = b->lost.count <= span;
		if (!request_packet(qp, batch, w, position, packet, psn, ask)) {
			if (w->state == WQE_ERROR && qp->state != IBV_QPS_ERR)
				continue;
			return false;
		}
		trace(retry, qp->base.qp_num, position, psn.v, RETRY_SELECTIVE, r->retries, 0);
		qp->resent += span;
		b->turns++;
		if (psn_diff(r->timed, psn) >= 0 && psn_diff(r->timed, psn) < (int32_t)span)
			forget_timing(r);
		for (; span; span--, psn = psn_add(psn, 1)) {
			set_remove(&b->lost, psn);
			if (psn_diff(board_end(r), psn) <= 0 || set_has(&b->has, psn))
				continue;
			board_again(b, psn, r->next, batch->now);
		}
		set_absent(r);
		if (ask)
			requester_asked(r, r->next);
	}
	return true;
}

bool scoreboard_missing(struct qp *qp, psn_t psn)
{
	struct scoreboard *b = qp->req.board;
	psn_t end = board_end(&qp->req);

	board_advance(b, qp->req.una);
	if (psn_diff(end, psn) <= 0 || set_has(&b->has, psn) || set_has(&b->again, psn))
		return set_has(&b->lost, psn);
	lose_request(qp, psn);
	if (++b->naks_alone < NAKS_ALONE)
		return true;
	for (psn_t later = psn; !b->has.count && psn_diff(end, later) > 0; later = psn_add(later, 1))
		if (!set_has(&b->again, later))
			lose_request(qp, later);
	return true;
}

bool scoreboard_lose_all(struct qp *qp, bool below)
{
	struct requester *r = &qp->req;
	struct scoreboard *b = r->board;
	psn_t end;

	if (!b)
		return false;
	board_advance(b, r->una);
	end = below ? b->top : board_end(r);
	for (psn_t psn = r->una; psn_diff(end, psn) > 0; psn = psn_add(psn, 1))
		if (!set_has(&b->has, psn))
			lose_request(qp, psn);
	return b->lost.count;
}
