/* SPDX-License-Identifier: BSD-2-Clause */
/* The expected result: completions in order, each once, with the right values; memory as the model says. */
#include <stdlib.h>
#include <string.h>

#include "engine/board.h"
#include "engine/wqe.h"
#include "own.h"
#include "world.h"

static const char *const poison_name[] = {
	[POISON_NONE] = "sound",
	[POISON_RKEY] = "wrong rkey",
	[POISON_BOUNDS] = "out of bounds",
	[POISON_WRITE_ONLY] = "READ of a write-only region",
	[POISON_READ_ONLY] = "WRITE to a read-only region",
	[POISON_DOMAIN] = "rkey of another domain",
	[POISON_TOO_LONG] = "SEND longer than its receive",
	[POISON_LKEY] = "wrong lkey",
	[POISON_LOCAL] = "READ into read-only memory",
};
static_assert(ARRAY_SIZE(poison_name) == POISONS, "each has a name");

static const uint8_t poison_status[] = {
	[POISON_NONE] = IBV_WC_SUCCESS,
	[POISON_RKEY] = IBV_WC_REM_ACCESS_ERR,
	[POISON_BOUNDS] = IBV_WC_REM_ACCESS_ERR,
	[POISON_WRITE_ONLY] = IBV_WC_REM_ACCESS_ERR,
	[POISON_READ_ONLY] = IBV_WC_REM_ACCESS_ERR,
	[POISON_DOMAIN] = IBV_WC_REM_ACCESS_ERR,
	[POISON_TOO_LONG] = IBV_WC_REM_INV_REQ_ERR,
	[POISON_LKEY] = IBV_WC_LOC_PROT_ERR,
	[POISON_LOCAL] = IBV_WC_LOC_PROT_ERR,
};
static_assert(ARRAY_SIZE(poison_status) == POISONS, "each has a status");

static const uint8_t wc_opcode[] = {
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
};

static bool is_write(const struct op *op)
{
	return op->opcode == IBV_WR_RDMA_WRITE || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(const struct op *op)
{
	return op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* What it changes in the peer's arena. */
static struct piece changed_by(const struct op *op)
{
	if (op->poison || op->shared)
		return (struct piece){0};
	return is_write(op)    ? (struct piece){op->target, op->length}
	       : is_atomic(op) ? (struct piece){op->target, sizeof(uint64_t)}
			       : (struct piece){0};
}

static bool overlap(struct piece a, struct piece b)
{
	return a.length && b.length && a.offset < b.offset + b.length && b.offset < a.offset + a.length;
}

/* A WRITE whose completion has been seen is in the peer's memory, unless a later request changed it again. */
static void check_written(struct end *e, uint32_t number)
{
	struct op *op = &e->op[number];
	struct piece p = changed_by(op);

	if (!is_write(op) || e->peer->frozen || e->peer->state == END_DEAD)
		return;
	for (uint32_t i = number + 1; i < e->posted; i++)
		if (overlap(p, changed_by(&e->op[i])))
			return;
	expect(e->world, e, !memcmp(e->peer->arena.real + p.offset, op->data, p.length),
	       "WRITE %u is complete, and its data are not there", number);
}

/* Bytes into the pieces of the model, which then has to be what is. */
static void check_landed(struct end *e, const struct piece *piece, uint32_t pieces, const uint8_t *data,
			 uint32_t length, const char *what, uint32_t number)
{
	for (uint32_t i = 0; i < pieces; i++) {
		uint32_t n = min_of(length, piece[i].length);
		int64_t at;

		arena_expect(&e->arena, piece[i].offset, data, n);
		at = arena_difference(&e->arena, piece[i]);
		expect(e->world, e, at < 0, "%s %u: wrong data at byte %ld of piece %u", what, number,
		       (long)(at - piece[i].offset), i);
		data += n;
		length -= n;
	}
}

static void check_counted(struct end *e, struct op *op, uint32_t number)
{
	struct node *n = e->peer->node;
	uint64_t value;

	for (uint32_t i = 0; i < op->pieces; i++)
		arena_adopt(&e->arena, op->piece[i]);
	memcpy(&value, e->arena.real + op->piece[0].offset, sizeof(value));
	expect(e->world, e, value < n->counted, "shared counter: request %u got %lu of %lu", number, value, n->counted);
	if (value >= n->values_room) {
		uint64_t room = 2 * value + 64;

		n->values = own(n->values, room);
		memset(n->values + n->values_room, 0, room - n->values_room);
		n->values_room = room;
	}
	expect(e->world, e, n->values[value]++ == 0, "shared counter: %lu was returned twice", value);
	n->returned++;
}

static void succeeded(struct end *e, uint32_t number)
{
	struct op *op = &e->op[number];

	expect(e->world, e, !op->poison, "request %u (%s) succeeded", number, poison_name[op->poison]);
	if (op->shared)
		check_counted(e, op, number);
	else if (op->opcode == IBV_WR_RDMA_READ || is_atomic(op))
		check_landed(e, op->piece, op->pieces, op->data, is_atomic(op) ? 8 : op->length, "response to request",
			     number);
	check_written(e, number);
	e->successes++;
}

static void release(struct op *op)
{
	for (uint32_t i = 0; op->owns_pieces && i < op->pieces; i++)
		if (op->piece[i].length)
			space_give(op->space, op->piece[i].offset, op->piece[i].length);
	op->owns_pieces = false;
}

static bool makes_cqe(const struct end *e, const struct op *op)
{
	return e->sig_all || (op->flags & IBV_SEND_SIGNALED);
}

/* Besides what the scenario is about: a peer that has failed is silent, and what fails here takes all else
 * along. */
static bool is_permitted(const struct end *e, int status)
{
	bool peer_failed = e->peer->state != END_WORKS || e->peer->qp->state == IBV_QPS_ERR;

	return (e->permitted & STATUS(status)) || (peer_failed && status == IBV_WC_RETRY_EXC_ERR) ||
	       ((e->fatal || e->state == END_CLOSED) && status == IBV_WC_WR_FLUSH_ERR);
}

static void note_error(struct end *e, int status, uint32_t number)
{
	struct world *w = e->world;
	uint64_t timeout = max_of(4096ull << e->attr.timeout, 5 * MSEC);
	uint64_t start = max_of(w->struck_at, e->op[number].posted_at);
	/* told not ready, it waits that long before it counts; and the application looks once in a while */
	uint64_t bound = start + (e->attr.retry_cnt + 1ull) * 4 * timeout + 660 * MSEC + 10 * MSEC + w->stopped;

	e->first_error = status;
	e->first_error_at = w->now;
	expect(w, e, is_permitted(e, status), "request %u (%s) failed with status %d (%s)", number,
	       poison_name[e->op[number].poison], status, ibv_wc_status_str(status));
	if (e->op[number].poison && status != IBV_WC_WR_FLUSH_ERR && status != IBV_WC_RETRY_EXC_ERR)
		expect(w, e, status == poison_status[e->op[number].poison], "request %u (%s) failed with status %d",
		       number, poison_name[e->op[number].poison], status);
	if (status == IBV_WC_RETRY_EXC_ERR && w->struck_at && e->peer->state == END_DEAD)
		expect(w, e, w->now <= bound, "the dead peer was noticed %lu ns too late", w->now - bound);
}

void model_completed(struct end *e, const struct cqe *c)
{
	struct world *w = e->world;
	struct op *op;

	say(w, e, "completion: wr_id %lx status %u opcode %u", c->wr_id, c->status, c->opcode);
	expect(w, e, e->state != END_DEAD, "a completion of a QP that is gone");
	/* requests without a CQE of their own are done when a later one is */
	while (e->completed < e->posted && e->op[e->completed].wr_id != c->wr_id) {
		op = &e->op[e->completed];
		expect(w, e, !makes_cqe(e, op) && e->first_error < 0, "completion wr_id %lx skips request %u", c->wr_id,
		       e->completed);
		succeeded(e, e->completed);
		release(op);
		e->completed++;
	}
	expect(w, e, e->completed < e->posted, "completion wr_id %lx belongs to no request", c->wr_id);
	op = &e->op[e->completed];
	if (c->status == IBV_WC_SUCCESS) {
		expect(w, e, e->first_error < 0, "request %u succeeds after an error", e->completed);
		expect(w, e, makes_cqe(e, op), "request %u is unsignalled, and completes", e->completed);
		expect(w, e, c->opcode == wc_opcode[op->opcode], "request %u: opcode %u", e->completed, c->opcode);
		if (op->opcode == IBV_WR_RDMA_READ || is_atomic(op))
			expect(w, e, c->byte_len == op->length, "request %u: %u bytes of %u", e->completed, c->byte_len,
			       op->length);
		succeeded(e, e->completed);
	} else {
		if (e->first_error < 0)
			note_error(e, c->status, e->completed);
		else
			expect(w, e, c->status == IBV_WC_WR_FLUSH_ERR, "request %u after an error: status %u",
			       e->completed, c->status);
		if (op->space == &e->sink)
			for (uint32_t i = 0; i < op->pieces; i++)
				arena_adopt(&e->arena, op->piece[i]);
	}
	release(op);
	e->completed++;
	e->reclaimed = e->completed;
}

static void check_message(struct end *e, const struct take *t, const struct cqe *c)
{
	struct world *w = e->world;
	struct op *op;

	expect(w, e, e->received < e->peer->messages, "a message that nobody sent");
	op = &e->peer->op[e->peer->message[e->received]];
	if (is_write(op)) {
		expect(w, e, c->opcode == IBV_WC_RECV_RDMA_WITH_IMM, "message %u: opcode %u", e->received, c->opcode);
		for (uint32_t i = 0; i < t->pieces; i++) {
			int64_t at = arena_difference(&e->arena, t->piece[i]);

			expect(w, e, at < 0, "message %u: WRITE with immediate changed a receive's memory",
			       e->received);
		}
		if (!e->frozen)
			check_written(e->peer, e->peer->message[e->received]);
	} else {
		expect(w, e, c->opcode == IBV_WC_RECV, "message %u: opcode %u", e->received, c->opcode);
		check_landed(e, t->piece, t->pieces, op->data, op->length, "message", e->received);
	}
	expect(w, e, c->byte_len == op->length, "message %u: %u bytes of %u", e->received, c->byte_len, op->length);
	if (op->opcode == IBV_WR_SEND_WITH_IMM || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		expect(w, e, c->flags == IBV_WC_WITH_IMM && c->imm == op->imm, "message %u: immediate data %08x",
		       e->received, c->imm);
	else
		expect(w, e, c->flags == 0, "message %u: flags %x", e->received, c->flags);
	expect(w, e, !(c->marks & CQE_SOLICITED) == !(op->flags & IBV_SEND_SOLICITED), "message %u: marks %x",
	       e->received, c->marks);
	e->received++;
}

void model_received(struct end *e, const struct cqe *c)
{
	struct take *t = &e->take[e->takes_completed];
	struct world *w = e->world;
	bool flushed = c->status == IBV_WC_WR_FLUSH_ERR;

	say(w, e, "receive completion: wr_id %lx status %u opcode %u", c->wr_id, c->status, c->opcode);
	expect(w, e, e->state != END_DEAD, "a completion of a QP that is gone");
	expect(w, e, e->takes_completed < e->takes && t->wr_id == c->wr_id, "receive completion wr_id %lx out of order",
	       c->wr_id);
	if (c->status == IBV_WC_SUCCESS) {
		expect(w, e, !e->recv_failed, "a receive succeeds after an error");
		check_message(e, t, c);
	} else {
		expect(w, e, flushed || (!e->recv_failed && (e->recv_permitted & STATUS(c->status))),
		       "receive %u failed with status %u", e->takes_completed, c->status);
		expect(w, e, e->state == END_CLOSED || e->first_error >= 0 || e->qp->state == IBV_QPS_ERR,
		       "receive %u flushed for no reason", e->takes_completed);
		/* only the first can have been begun */
		for (uint32_t i = 0; i < t->pieces; i++) {
			if (!e->recv_failed)
				arena_adopt(&e->arena, t->piece[i]);
			expect(w, e, arena_difference(&e->arena, t->piece[i]) < 0,
			       "receive %u was flushed and its memory has changed", e->takes_completed);
		}
		e->recv_failed = true;
	}
	for (uint32_t i = 0; i < t->pieces; i++)
		if (t->piece[i].length)
			space_give(&e->inbox, t->piece[i].offset, t->piece[i].length);
	e->takes_completed++;
}

/* Requests that did not succeed may have been executed or not. */
static void adopt_doubtful(struct end *e)
{
	for (uint32_t i = e->first_error >= 0 ? e->successes : e->completed; i < e->posted; i++) {
		struct op *op = &e->op[i];

		if (!e->peer->frozen)
			arena_adopt(&e->peer->arena, changed_by(op));
		if (i >= e->completed && op->space == &e->sink)
			for (uint32_t p = 0; p < op->pieces; p++)
				arena_adopt(&e->arena, op->piece[p]);
	}
	for (uint32_t i = e->takes_completed; i < e->takes; i++)
		for (uint32_t p = 0; p < e->take[i].pieces; p++)
			arena_adopt(&e->arena, e->take[i].piece[p]);
}

/* Messages as the responder counts them: a long READ goes out as several requests, which are messages each; a long
 * WRITE may go out as one per packet. */
struct range {
	uint32_t least, most;
};

static struct range messages_of(const struct end *e)
{
	struct range all = {0, 0};

	for (uint32_t i = 0; i < e->posted; i++) {
		const struct op *op = &e->op[i];
		uint32_t n = op->opcode == IBV_WR_RDMA_READ ? (op->length + READ_CHUNK - 1) / READ_CHUNK : 1;

		all.least += max_of(n, 1u);
		if (op->opcode == IBV_WR_RDMA_WRITE)
			n = (op->length + e->qp->mtu - 1) / e->qp->mtu;
		all.most += max_of(n, 1u);
	}
	return all;
}

void model_check_agreement(struct end *e)
{
	struct range messages = messages_of(e);
	const struct requester *r = &e->qp->req;
	const struct responder *p = &e->peer->qp->resp;
	struct world *w = e->world;

	expect(w, e, e->qp->state == IBV_QPS_RTS, "state %d", e->qp->state);
	expect(w, e, r->una.v == r->next.v && r->next.v == r->high.v, "una %06x next %06x high %06x when all is done",
	       r->una.v, r->next.v, r->high.v);
	expect(w, e, p->expected.v == r->next.v, "the next PSN is %06x, the peer expects %06x", r->next.v,
	       p->expected.v);
	expect(w, e, p->msn >= messages.least && p->msn <= messages.most, "MSN %u after %u to %u messages", p->msn,
	       messages.least, messages.most);
	expect(w, e, r->flight == 0 && r->rd_count == 0, "%u bytes, %u READs in flight when all is done", r->flight,
	       r->rd_count);
	expect(w, e, e->successes == e->planned, "%u of %u requests succeeded", e->successes, e->planned);
	expect(w, e, e->peer->received == e->messages, "%u messages sent, %u received", e->messages, e->peer->received);
	lock_take(&e->qp->lock);
	expect(w, e, engine_deadline(e->qp) == NEVER, "a deadline is set when all is done");
	expect(w, e, !engine_has_work(e->qp, false) && !engine_in_flight(e->qp), "work is left when all is done");
	lock_drop(&e->qp->lock);
	for (uint32_t i = 0; i < ARRAY_SIZE(e->event); i++)
		expect(w, e, !e->event[i] || i == IBV_EVENT_SQ_DRAINED || i == IBV_EVENT_COMM_EST,
		       "event %u came %u times", i, e->event[i]);
}

void model_check_end(struct end *e)
{
	struct world *w = e->world;
	uint32_t sure = 0;

	if (e->state != END_DEAD) {
		expect(w, e, e->completed == e->posted, "%u of %u requests completed", e->completed, e->posted);
		expect(w, e, e->takes_completed == e->takes, "%u of %u receives completed", e->takes_completed,
		       e->takes);
	}
	while (sure < e->messages && e->message[sure] < e->successes)
		sure++;
	if (e->peer->state != END_DEAD)
		expect(w, e, e->peer->received >= sure, "%u messages were acknowledged, %u received", sure,
		       e->peer->received);
	adopt_doubtful(e);
}

void model_check_world(struct world *w)
{
	for (uint32_t i = 0; i < w->ends; i++) {
		struct end *e = &w->end[i];
		int64_t at = arena_difference(&e->arena, (struct piece){0, e->arena.size});

		expect(w, e, at < 0, "memory at %ld is not as it should be (source %u sink %u inbox %u target %u..%u)",
		       (long)at, e->source.offset, e->sink.offset, e->inbox.offset, e->target.offset,
		       e->target.offset + e->target.length);
	}
	for (uint32_t i = 0; i < w->nodes; i++) {
		struct node *n = &w->node[i];

		expect(w, NULL, n->counter >= n->returned && n->counter <= n->counted,
		       "node %u: shared counter is %lu; %lu increments posted, %lu succeeded", i, n->counter,
		       n->counted, n->returned);
		expect(w, NULL, w->spoiled || n->counter == n->counted,
		       "node %u: shared counter is %lu after %lu increments", i, n->counter, n->counted);
	}
}
