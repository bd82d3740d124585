/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/board.h"

#include <assert.h>
#include <stdlib.h>

/* Bytes by the number of packets, as most are of one size. READs that have arrived are being answered, unless they wait
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
	assert(!r->lossless); /* lossless: an ACK tells all: engine_change_link() */
	if (!r->board)
		r->board = calloc(1, sizeof(*r->board));
	if (!r->board)
		return false;
	board_advance(r->board, r->una);
	return true;
}

bool board_follow(struct scoreboard *b, const struct requester *r)
{
	board_advance(b, r->una);
	return board_cover(b, r->next);
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

	early_drop(&r->answers);
	board_clear(&m->board, r->una);
	m->told = r->una;
	m->urgent = false;
	m->from = r->high;
	m->gone_back = psn_diff(r->high, r->una) > 0;
	m->until = NEVER;
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
	requester_free(&qp->req);
	qp->req.absent = 0;
}

void scoreboard_rest(struct requester *r)
{
	board_clear(r->board, r->una);
	if (r->reads)
		board_clear(&r->reads->board, r->una);
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
