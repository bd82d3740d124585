/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/reassembly.h"

#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "base/trace.h"
#include "engine/request.h"
#include "engine/timers.h"
#include "engine/tuned.h"

void reassembly_begin(struct qp *qp)
{
	struct requester *r = &qp->req;

	if (r->lossless || qp->transport != TRANSPORT_RC || !qp->resp.peer_is_uroce || r->reads || !make_board(r))
		return;
	r->reads = calloc(1, sizeof(*r->reads));
	if (r->reads)
		board_clear(&r->reads->board, r->una);
}

/* True if a response is kept, or may be requested again. */
static bool keeps(const struct requester *r, psn_t psn, uint64_t now)
{
	const struct reassembly *m = r->reads;

	return m && m->ignored < IGNORED_MOST && (!m->gone_back || psn_diff(psn, m->from) >= 0 || now >= m->until);
}

static bool wants_response_at(struct qp *qp, psn_t psn)
{
	uint32_t position, packet;

	return wqe_wants_response(find_packet(qp, psn, &position, &packet));
}

static void lose(struct qp *qp, psn_t psn)
{
	struct scoreboard *b = &qp->req.reads->board;

	if (!wants_response_at(qp, psn)) {
		set_add(b, &b->has, psn); /* an ACK for a later one, or a response, completes it */
		return;
	}
	board_lose(b, psn);
	qp->req.board->lost_ever++;
}

static void find_missing(struct qp *qp)
{
	struct requester *r = &qp->req;
	struct scoreboard *b = &r->reads->board;
	uint32_t before = b->lost.count;

	for (psn_t psn = r->una; psn_diff(b->top, psn) > 0; psn = psn_add(psn, 1))
		if (!set_has(b, &b->has, psn) && !set_has(b, &b->lost, psn) && board_overtaken(b, psn))
			lose(qp, psn);
	if (b->lost.count != before)
		note_loss(qp, false);
	set_absent(r);
}

bool reassembly_keep(struct qp *qp, const struct packet *p, uint64_t now)
{
	struct requester *r = &qp->req;
	struct reassembly *m = r->reads;

	if (!keeps(r, p->psn, now) || psn_diff(r->next, p->psn) <= 0)
		return false;
	reassembly_settle(r);
	if (!wants_response_at(qp, p->psn))
		return true; /* no peer answers so */
	if (!board_cover(&m->board, r->next))
		return false;
	if (set_has(&m->board, &m->board.has, p->psn) || !early_keep(&r->answers, r->una, p, 1))
		return true;
	note_received(r, &m->board, p->psn, now);
	note_heard(qp, now);
	find_missing(qp);
	return true;
}

bool reassembly_told(struct qp *qp, psn_t end, uint64_t now)
{
	struct requester *r = &qp->req;
	struct reassembly *m = r->reads;

	if (!keeps(r, r->una, now) || psn_diff(r->next, end) < 0)
		return false;
	reassembly_settle(r);
	if (!board_cover(&m->board, r->next))
		return false;
	if (psn_diff(end, m->told) > 0)
		m->told = end;
	if (psn_diff(end, m->board.top) > 0)
		m->board.top = end;
	note_heard(qp, now);
	find_missing(qp);
	return true;
}

bool reassembly_answered(struct qp *qp, const struct packet *p, struct packet *response, uint64_t now)
{
	struct requester *r = &qp->req;
	struct reassembly *m = r->reads;
	uint32_t position, packet;
	const struct wqe *w;
	be64 value;

	if (!keeps(r, p->psn, now) || psn_diff(p->psn, r->una) < 0 || psn_diff(r->next, p->psn) <= 0)
		return false;
	m->works = true;
	m->ignored = 0;
	reassembly_settle(r);
	board_turn(&m->board, p->psn, r->least_rtt, now);
	w = find_packet(qp, p->psn, &position, &packet);
	if (!wqe_wants_response(w))
		return false;
	*response = *p;
	response->syndrome = SYNDROME_ACK;
	response->opcode = OP_READ_RESPONSE_ONLY;
	if (w->opcode == IBV_WR_RDMA_READ || w->opcode == IBV_WR_ATOMIC_WRITE)
		return true;
	if (p->length != sizeof(value))
		return false;
	memcpy(&value, p->payload, sizeof(value));
	response->opcode = OP_ATOMIC_ACKNOWLEDGE;
	response->original = from_be64(value);
	response->length = 0;
	return true;
}

bool reassembly_probe(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;
	struct reassembly *m = r->reads;
	psn_t last = r->rd_last[(r->rd_head + r->rd_count - 1) % HCA_MAX_RD_ATOMIC];

	if (!keeps(r, r->una, now) || (r->probes && !m->works))
		return false;
	reassembly_settle(r);
	if (!board_cover(&m->board, r->next))
		return false;
	for (psn_t psn = r->una; psn_diff(m->board.top, psn) > 0; psn = psn_add(psn, 1))
		if (!set_has(&m->board, &m->board.has, psn) && !set_has(&m->board, &m->board.lost, psn))
			lose(qp, psn);
	if (!m->board.lost.count && m->works && !set_has(&m->board, &m->board.has, last))
		lose(qp, last);
	/* the next NAK will be new */
	r->gap_seen = false;
	set_clear(r->board, &r->board->again);
	set_absent(r);
	m->urgent = m->board.lost.count;
	return m->urgent;
}

void reassembly_ignored(struct requester *r)
{
	struct reassembly *m = r->reads;

	if (m && !m->works && m->board.again.count)
		m->ignored++;
}

/* Number of packets from this one on that are lost and may be requested at once. */
static uint32_t ask_span(struct qp *qp, const struct wqe *w, uint32_t packet, psn_t psn)
{
	const struct requester *r = &qp->req;
	const struct scoreboard *b = &r->reads->board;
	uint32_t most = wqe_span(qp, w, packet), left = r->window - min_of(r->window, in_network(r)), span = 1;

	most = min_of(most, max_of(left / (r->mtu + PACKET_OVERHEAD), 1u));
	while (span < most && set_has(b, &b->lost, psn_add(psn, span)))
		span++;
	return span;
}

static void ask_packet(const struct qp *qp, struct packet *p, const struct wqe *w, uint32_t packet, uint32_t span)
{
	uint64_t offset = (uint64_t)packet * qp->req.mtu;

	p->va = w->remote_addr + offset;
	p->rkey = w->rkey;
	p->dma_length = w->opcode == IBV_WR_ATOMIC_WRITE
				? 0
				: (uint32_t)min_of((uint64_t)span * qp->req.mtu, w->length - offset);
}

bool reassembly_ask(struct qp *qp, struct tx_batch *batch)
{
	struct requester *r = &qp->req;
	struct scoreboard *b = &r->reads->board;

	while (b->lost.count) {
		psn_t psn = board_first_lost(b, r->una);
		uint32_t position, packet, span;
		const struct wqe *w = find_packet(qp, psn, &position, &packet);
		struct tx *tx;

		if ((!r->reads->urgent && !window_allows_repair(r)) || !batch_has_room(batch, 0, false))
			return false;
		tx = batch_packet(qp, batch, OPCODE_ANSWER_AGAIN, psn);
		if (!tx)
			return false;
		span = ask_span(qp, w, packet, psn);
		ask_packet(qp, &tx->packet, w, packet, span);
		trace(retry, qp->base.qp_num, position, psn.v, RETRY_SELECTIVE, r->retries, 0);
		qp->resent += span;
		if (psn_diff(r->timed, psn) >= 0 && psn_diff(r->timed, psn) < (int32_t)span)
			forget_timing(r);
		for (; span; span--, psn = psn_add(psn, 1)) {
			set_remove(b, &b->lost, psn);
			b->turns++;
			board_again(b, psn, r->next, batch->now);
		}
		r->reads->urgent = false;
		set_absent(r);
		requester_asked(r, r->next);
	}
	return true;
}

void reassembly_look(struct qp *qp)
{
	reassembly_settle(&qp->req);
	find_missing(qp);
}
