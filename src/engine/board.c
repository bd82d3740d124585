/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/board.h"

#include <stdlib.h>
#include <string.h>

/* A packet is lost if the peer has one that was sent so many packets later: those that come sooner may have overtaken
 * it (RFC 6675, DupThresh). */
#define REORDERING 3

static void set_clear(struct psn_set *s)
{
	if (s->count)
		memset(s, 0, sizeof(*s));
}

static bool board_is_clear(const struct scoreboard *b)
{
	return !b->has.count && !b->lost.count && !b->again.count;
}

void board_clear(struct scoreboard *b, psn_t base)
{
	b->base = b->top = base;
	set_clear(&b->has);
	set_clear(&b->lost);
	set_clear(&b->again);
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
	if (psn_diff(psn, b->top) >= 0)
		b->top = psn_add(psn, 1);
	board_turn(r, b, psn, now);
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

bool make_board(struct requester *r)
{
	if (!r->board)
		r->board = calloc(1, sizeof(*r->board));
	if (!r->board)
		return false;
	board_advance(r->board, r->una);
	return true;
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

void reassembly_clear(struct qp *qp)
{
	struct requester *r = &qp->req;
	struct reassembly *m = r->reads;

	if (r->answers)
		early_clear(r->answers);
	board_clear(&m->board, r->una);
	m->told = r->una;
	m->urgent = false;
	m->from = r->high;
	m->gone_back = psn_diff(r->high, r->una) > 0;
	m->until = NEVER;
}

void reassembly_stop(struct qp *qp)
{
	struct requester *r = &qp->req;

	early_free(r->answers);
	free(r->reads);
	r->answers = NULL;
	r->reads = NULL;
}

void reassembly_settle(struct requester *r)
{
	struct reassembly *m = r->reads;

	board_advance(&m->board, r->una);
	if (psn_diff(m->told, r->una) < 0)
		m->told = r->una;
	if (m->gone_back && psn_diff(m->from, r->una) <= 0)
		m->gone_back = false;
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

void scoreboard_settle(struct qp *qp)
{
	struct requester *r = &qp->req;

	board_advance(r->board, r->una);
	if (r->reads)
		reassembly_settle(r);
	set_absent(r);
}

bool scoreboard_misses(const struct requester *r)
{
	return r->board->lost.count || (r->reads && r->reads->board.lost.count);
}
