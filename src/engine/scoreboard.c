/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/scoreboard.h"

#include "base/trace.h"
#include "engine/reassembly.h"
#include "engine/request.h"
#include "engine/timers.h"
#include "engine/tuned.h"

/* The end of the PSNs that the board covers. */
static psn_t board_end(const struct requester *r)
{
	return psn_add(r->una, min_of((uint32_t)psn_diff(r->next, r->una), r->board->size));
}

/* Marks a READ as lost: one packet. */
static void lose_request(struct qp *qp, psn_t psn)
{
	struct scoreboard *b = qp->req.board;
	uint32_t position, packet;
	bool counts = true;

	if (qp->req.rd_count) {
		const struct wqe *w = find_packet(qp, psn, &position, &packet);

		counts = !packet || wqe_span(qp, w, packet - 1) == 1;
	}
	b->lost_ever += counts;
	board_lose(b, psn);
}

/* Finds lost packets in [first, end), of which the peer has just told. Its news of other packets may be older than
 * packets sent again after them. */
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
		uint32_t place = board_place(b, psn), word = place / 64;

		if (place % 64 == 0 && !~(b->has.bits[word] | b->lost.bits[word]))
			psn = psn_add(psn, 63);
		else if (!set_has(b, &b->has, psn) && !set_has(b, &b->lost, psn) && board_overtaken(b, psn))
			lose_request(qp, psn);
	}
	return b->lost.count != before;
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

		if (w->state == WQE_ERROR) { /* the request fails when those before it are complete */
			set_remove(b, &b->lost, psn);
			continue;
		}
		if (!window_allows_repair(r) || !request_fits(qp, batch, w, packet))
			return false;
		span = wqe_span(qp, w, packet);
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
			set_remove(b, &b->lost, psn);
			if (psn_diff(board_end(r), psn) <= 0 || set_has(b, &b->has, psn))
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

	if (psn_diff(end, psn) <= 0 || set_has(b, &b->has, psn) || set_has(b, &b->again, psn))
		return set_has(b, &b->lost, psn);
	lose_request(qp, psn);
	if (++b->naks_alone < NAKS_ALONE)
		return true;
	for (psn_t later = psn; !b->has.count && psn_diff(end, later) > 0; later = psn_add(later, 1))
		if (!set_has(b, &b->again, later))
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
	if (!below && !board_cover(b, r->next))
		return false;
	end = below ? b->top : board_end(r);
	for (psn_t psn = r->una; psn_diff(end, psn) > 0; psn = psn_add(psn, 1))
		if (!set_has(b, &b->has, psn))
			lose_request(qp, psn);
	return b->lost.count;
}

void scoreboard_told(struct qp *qp, psn_t upto, const struct sack *sack, uint64_t now)
{
	struct requester *r = &qp->req;
	psn_t end;

	if (!make_board(r) || !board_follow(r->board, r))
		return;
	r->board->naks_alone = 0;
	end = board_end(r);
	for (psn_t psn = r->una; psn_diff(upto, psn) > 0 && psn_diff(end, psn) > 0; psn = psn_add(psn, 1))
		note_received(r, r->board, psn, now);
	for (uint32_t i = 0; i < sack->count; i++) {
		psn_t psn = psn_add(sack->first, i);

		if (sack_has(sack, i) && psn_diff(psn, r->una) >= 0 && psn_diff(end, psn) > 0)
			note_received(r, r->board, psn, now);
	}
	note_heard(qp, now);
	if (find_lost(qp, sack->first, psn_add(sack->first, sack->count)))
		note_loss(qp, false);
	set_absent(r);
}
