/* SPDX-License-Identifier: BSD-2-Clause */
/* What applications do: post, poll and wait, at random. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"
#include "own.h"
#include "shortage.h"
#include "world.h"
#include "engine/tuned.h"
#include "object/cq_poll.h"

enum kind {
	KIND_SEND,
	KIND_SEND_IMM,
	KIND_WRITE,
	KIND_WRITE_IMM,
	KIND_READ,
	KIND_SWAP,
	KIND_ADD,
	KIND_COUNT, /* FETCH_ADD on the counter that all share */
	KINDS,
};

static const enum ibv_wr_opcode opcode_of[] = {
	[KIND_SEND] = IBV_WR_SEND,
	[KIND_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
	[KIND_WRITE] = IBV_WR_RDMA_WRITE,
	[KIND_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[KIND_READ] = IBV_WR_RDMA_READ,
	[KIND_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
	[KIND_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[KIND_COUNT] = IBV_WR_ATOMIC_FETCH_AND_ADD,
};
static_assert(ARRAY_SIZE(opcode_of) == KINDS && KINDS == ARRAY_SIZE(((struct style *)0)->weight), "one each");

#define BASE(e) (0x100000000ull * ((e)->number + 1)) /* what end.c adds to arena offsets: keys' addresses */

static uint32_t draw_length(struct end *e)
{
	struct dice *d = &e->world->dice;
	uint32_t most = e->world->style.max_length, mtu = e->qp->mtu, length;

	switch (dice_below(d, 8)) {
	case 0:
		return 0;
	case 1:
	case 2:
		return min_of(most, (uint32_t)dice_below(d, 65));
	case 3:
	case 4: /* about a whole number of packets */
		length = (uint32_t)(dice_below(d, most / mtu + 1) * mtu + dice_below(d, 3)) - 1;
		return length <= most ? length : most;
	default:
		return dice_chance(d, e->world->style.big) ? (uint32_t)dice_below(d, most + 1)
							   : (uint32_t)dice_below(d, min_of(most, 3 * mtu) + 1);
	}
}

static enum kind draw_kind(struct end *e)
{
	const struct style *s = &e->world->style;
	uint32_t sum = 0, roll;

	for (int i = 0; i < KINDS; i++)
		sum += s->weight[i];
	roll = (uint32_t)dice_below(&e->world->dice, sum);
	for (int i = 0; i < KINDS; i++) {
		if (roll < s->weight[i])
			return i;
		roll -= s->weight[i];
	}
	return KIND_SEND;
}

static void give_back(struct space *s, const struct piece *piece, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (piece[i].length)
			space_give(s, piece[i].offset, piece[i].length);
}

/* `length` bytes in up to `most` pieces, some of them perhaps empty. 0: no room (or no bytes). */
static bool cut(struct end *e, struct space *s, uint32_t length, uint32_t most, struct piece *piece, uint32_t *count)
{
	struct dice *d = &e->world->dice;
	uint32_t left = length;

	*count = length || dice_chance(d, 0.3) ? (uint32_t)dice_between(d, 1, most) : 0;
	for (uint32_t i = 0; i < *count; i++) {
		piece[i].length = i + 1 == *count ? left : (uint32_t)dice_below(d, left + 1);
		piece[i].offset = s->offset;
		if (piece[i].length && !space_take(s, d, piece[i].length, &piece[i].offset)) {
			give_back(s, piece, i);
			return false;
		}
		left -= piece[i].length;
	}
	return true;
}

static bool uses_receive(const struct op *op)
{
	return op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM ||
	       op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* A READ of these bytes may still be on its way: without a fence, a later WRITE may overtake it. */
static bool is_being_read(const struct end *e, uint32_t offset, uint32_t length)
{
	for (uint32_t i = e->completed; i < e->posted; i++) {
		const struct op *op = &e->op[i];

		if (op->opcode == IBV_WR_RDMA_READ && offset < op->target + op->length && op->target < offset + length)
			return true;
	}
	return false;
}

static bool draw_target(struct end *e, struct op *op)
{
	const struct end *p = e->peer;
	uint32_t first = p->target.offset + SLOTS * 8, room = p->target.length - SLOTS * 8 - op->length;

	op->target = first + (uint32_t)dice_below(&e->world->dice, room + 1);
	if (op->opcode != IBV_WR_RDMA_READ && is_being_read(e, op->target, op->length))
		op->flags |= IBV_SEND_FENCE;
	return true;
}

static bool has_effect(const struct end *e)
{
	return !e->poisoned && !e->peer->frozen;
}

/* The model executes the request at once: requests of one QP take effect in order. */
static void execute(struct end *e, struct op *op)
{
	struct arena *there = &e->peer->arena;
	uint64_t *slot, value;

	switch (op->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		if (has_effect(e))
			arena_expect(there, op->target, op->data, op->length);
		break;
	case IBV_WR_RDMA_READ:
		memcpy(op->data, there->model + op->target, op->length);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		slot = (uint64_t *)(there->model + op->target);
		value = *slot;
		memcpy(op->data, &value, sizeof(value));
		break;
	default:
		break;
	}
}

static void fill_source(struct end *e, struct op *op)
{
	uint8_t *to = op->data;

	for (uint32_t i = 0; i < op->pieces; i++) {
		arena_fill(&e->arena, op->piece[i], &e->world->dice);
		memcpy(to, e->arena.real + op->piece[i].offset, op->piece[i].length);
		to += op->piece[i].length;
	}
}

/* One that the fast path takes. */
static bool is_short_send(const struct op *op)
{
	return op->opcode == IBV_WR_SEND && !op->poison && op->length >= FAST_UDP_LEAST && op->length <= FAST_UDP_MOST;
}

static bool plan_transfer(struct end *e, struct op *op)
{
	struct style *s = &e->world->style;
	struct dice *d = &e->world->dice;
	struct op *before = e->posted ? &e->op[e->posted - 1] : NULL;
	bool alike;

	if (before && e->completed < e->posted && before->opcode == IBV_WR_RDMA_READ && before->owns_pieces &&
	    !before->poison && dice_chance(d, s->dependent)) {
		/* what the READ brings goes on at once: only the fence makes that right */
		op->flags |= IBV_SEND_FENCE;
		op->length = before->length;
		op->pieces = before->pieces;
		memcpy(op->piece, before->piece, sizeof(op->piece));
		op->space = before->space;
		op->owns_pieces = true;
		before->owns_pieces = false;
		op->data = own(NULL, op->length + 1);
		memcpy(op->data, before->data, op->length);
		return draw_target(e, op);
	}
	alike = before && is_short_send(before) && dice_chance(d, s->alike);
	if (alike)
		op->opcode = IBV_WR_SEND;
	op->length = alike ? before->length : draw_length(e);
	if (op->length <= e->cap.max_inline_data && dice_chance(d, s->use_inline))
		op->flags |= IBV_SEND_INLINE;
	op->space = &e->source;
	if (!cut(e, op->space, op->length, alike ? 1 : e->cap.max_send_sge, op->piece, &op->pieces))
		return false;
	op->owns_pieces = true;
	op->data = own(NULL, op->length + 1);
	fill_source(e, op);
	return draw_target(e, op);
}

static bool plan_read(struct end *e, struct op *op)
{
	op->length = draw_length(e);
	op->space = &e->sink;
	if (!cut(e, op->space, op->length, e->cap.max_send_sge, op->piece, &op->pieces))
		return false;
	op->owns_pieces = true;
	op->data = own(NULL, op->length + 1);
	return draw_target(e, op);
}

static bool plan_atomic(struct end *e, struct op *op, enum kind kind)
{
	op->length = sizeof(uint64_t);
	op->space = &e->sink;
	op->pieces = 1;
	op->piece[0].length = op->length;
	if (!space_take(op->space, &e->world->dice, op->length, &op->piece[0].offset))
		return false;
	op->owns_pieces = true;
	op->data = own(NULL, sizeof(uint64_t));
	op->shared = kind == KIND_COUNT;
	op->target = e->peer->target.offset + 8 * (uint32_t)dice_below(&e->world->dice, SLOTS);
	return true;
}

/* One that fails: where it goes wrong, and that nothing comes of it. */
static bool plan_poisoned(struct end *e, struct op *op)
{
	uint32_t most = e->world->style.max_length, mtu = e->qp->mtu;
	bool read = op->poison == POISON_WRITE_ONLY || op->poison == POISON_LOCAL ||
		    (op->poison != POISON_READ_ONLY && op->poison != POISON_LKEY && op->poison != POISON_TOO_LONG &&
		     e->attr.max_rd_atomic && dice_chance(&e->world->dice, 0.5));

	op->opcode = op->poison == POISON_TOO_LONG ? IBV_WR_SEND : read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	op->length = op->poison == POISON_TOO_LONG
			     ? most + 65 + (uint32_t)dice_below(&e->world->dice, 1000)
			     : (uint32_t)dice_between(&e->world->dice, 1, min_of(most, min_of(3 * mtu, 4000u)));
	op->space = op->poison == POISON_LOCAL ? &e->source : read ? &e->sink : &e->source;
	op->pieces = 1;
	op->piece[0].length = op->length;
	if (!space_take(op->space, &e->world->dice, op->length, &op->piece[0].offset))
		return false;
	op->owns_pieces = true;
	op->data = own(NULL, op->length + 1);
	op->target = op->poison == POISON_BOUNDS ? e->peer->target.offset + e->peer->target.length - op->length + 1
		     : op->poison == POISON_WRITE_ONLY ? e->peer->writable.offset
		     : op->poison == POISON_READ_ONLY  ? e->peer->readable.offset
						       : e->peer->target.offset + SLOTS * 8;
	return true;
}

/* A request of no bytes: needs no memory, so that there is always something to post. */
static void plan_nothing(struct op *op)
{
	op->opcode = IBV_WR_RDMA_WRITE;
	op->flags = IBV_SEND_SIGNALED;
	op->data = own(NULL, 1);
	op->length = op->pieces = 0;
}

static bool plan(struct end *e, struct op *op)
{
	enum kind kind = draw_kind(e);

	if (e->attr.max_rd_atomic == 0 && kind >= KIND_READ)
		kind = KIND_WRITE;
	*op = (struct op){.opcode = opcode_of[kind], .poison = e->poison};
	if (op->poison)
		return plan_poisoned(e, op);
	if (kind < KIND_READ)
		return plan_transfer(e, op);
	return kind == KIND_READ ? plan_read(e, op) : plan_atomic(e, op, kind);
}

static void draw_flags(struct end *e, struct op *op, bool last)
{
	struct style *s = &e->world->style;
	struct dice *d = &e->world->dice;

	if (last || !dice_chance(d, s->unsignalled))
		op->flags |= IBV_SEND_SIGNALED;
	if (dice_chance(d, s->fence))
		op->flags |= IBV_SEND_FENCE;
	if (uses_receive(op) && dice_chance(d, s->solicited))
		op->flags |= IBV_SEND_SOLICITED;
	op->imm = (uint32_t)dice_roll(d);
	op->wr_id = dice_roll(d);
}

static uint32_t remote_key(const struct end *e, const struct op *op)
{
	const struct end *p = e->peer;

	switch (op->poison) {
	case POISON_RKEY:
		return p->target_mr->base.rkey ^ 0x55;
	case POISON_WRITE_ONLY:
		return p->writable_mr->base.rkey;
	case POISON_READ_ONLY:
		return p->readable_mr->base.rkey;
	case POISON_DOMAIN:
		return p->foreign_mr->base.rkey;
	default:
		return e->target_rkey;
	}
}

static void build_wr(struct end *e, const struct op *op, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	const struct mr *mr = op->space == &e->sink ? e->sink_mr : e->source_mr;
	uint64_t remote = BASE(e->peer) + op->target, operand = 0;
	uint32_t lkey = mr->base.lkey ^ (op->poison == POISON_LKEY ? 0x55 : 0);
	bool is_inline = op->flags & IBV_SEND_INLINE;

	for (uint32_t i = 0; i < op->pieces; i++)
		sge[i] = (struct ibv_sge){
			.addr = is_inline ? (uintptr_t)e->arena.real + op->piece[i].offset
					  : BASE(e) + op->piece[i].offset,
			.length = op->piece[i].length,
			.lkey = is_inline ? 0xdead : lkey,
		};
	*wr = (struct ibv_send_wr){
		.wr_id = op->wr_id,
		.sg_list = sge,
		.num_sge = (int)op->pieces,
		.opcode = op->opcode,
		.send_flags = op->flags,
		.imm_data = op->imm,
	};
	if (op->opcode != IBV_WR_ATOMIC_CMP_AND_SWP && op->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = remote_key(e, op);
		return;
	}
	wr->wr.atomic.remote_addr = op->shared ? 0x8000 : remote;
	wr->wr.atomic.rkey = op->shared ? e->peer->node->counter_mr->base.rkey : remote_key(e, op);
	if (op->shared) {
		wr->wr.atomic.compare_add = 1;
		e->peer->node->counted++;
		return;
	}
	memcpy(&operand, op->data, sizeof(operand));
	wr->wr.atomic.swap = dice_roll(&e->world->dice);
	wr->wr.atomic.compare_add = op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || dice_chance(&e->world->dice, 0.4)
					    ? dice_roll(&e->world->dice)
					    : operand;
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		operand += wr->wr.atomic.compare_add;
	else if (operand == wr->wr.atomic.compare_add)
		operand = wr->wr.atomic.swap;
	if (has_effect(e))
		arena_expect(&e->peer->arena, op->target, &operand, sizeof(operand));
}

static void count_message(struct end *e, struct op *op)
{
	if (uses_receive(op))
		e->message[e->messages++] = e->posted;
}

/* One more request into the model, and as a work request behind *wr. */
static bool next_request(struct end *e, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	struct op *op = &e->op[e->posted];
	uint32_t used = e->posted - e->reclaimed;
	bool last = used + 1 == e->cap.max_send_wr || e->posted + 1 == e->planned;

	if (!plan(e, op)) {
		free(op->data);
		if (!e->posted || e->op[e->posted - 1].flags & IBV_SEND_SIGNALED || e->sig_all)
			return false; /* room comes with a completion */
		*op = (struct op){0};
		plan_nothing(op);
	}
	draw_flags(e, op, last);
	op->posted_at = e->world->now;
	if (op->poison) {
		e->poisoned = true;
		e->poison = POISON_NONE;
	}
	execute(e, op);
	build_wr(e, op, wr, sge);
	count_message(e, op);
	e->posted++;
	e->world->ops++;
	e->world->bytes += op->length;
	say(e->world, e, "posts request %u: opcode %d length %u flags %x poison %d", e->posted - 1, op->opcode,
	    op->length, op->flags, op->poison);
	return true;
}

static void post_too_many(struct end *e)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	int err;

	lock_take(&e->qp->lock);
	err = engine_post_send(e->qp, &wr, &bad);
	lock_drop(&e->qp->lock);
	expect(e->world, e, err == ENOMEM && bad == &wr, "a request too many: %d", err);
}

static bool post_sends(struct end *e)
{
	struct dice *d = &e->world->dice;
	struct ibv_sge sge[8][MAX_PIECES];
	struct ibv_send_wr wr[8], *rest, *bad = NULL;
	uint32_t batch = (uint32_t)dice_between(d, 1, dice_chance(d, 0.5) ? 1 : 8), count = 0, first = e->posted;
	int err = 0;

	while (count < batch && e->posted < e->planned && e->posted - e->reclaimed < e->cap.max_send_wr) {
		if (!next_request(e, &wr[count], sge[count]))
			break;
		if (count)
			wr[count - 1].next = &wr[count];
		count++;
	}
	if (e->posted - e->reclaimed == e->cap.max_send_wr && count == 0 && dice_chance(d, 0.05))
		post_too_many(e);
	if (count == 0)
		return false;
	lock_take(&e->qp->lock);
	rest = end_post_fast(e, wr);
	if (rest)
		err = engine_post_send(e->qp, rest, &bad);
	lock_drop(&e->qp->lock);
	expect(e->world, e, !err, "post_send says %d", err);
	/* inline data were taken: the buffer is the application's again */
	for (uint32_t i = first; i < e->posted; i++)
		for (uint32_t p = 0; (e->op[i].flags & IBV_SEND_INLINE) && p < e->op[i].pieces; p++)
			arena_fill(&e->arena, e->op[i].piece[p], d);
	e->last_posted_at = e->world->now;
	end_attend(e);
	return true;
}

static bool post_receive(struct end *e)
{
	struct dice *d = &e->world->dice;
	struct ibv_recv_wr wr = {0}, *bad = NULL;
	struct ibv_sge sge[MAX_PIECES];
	struct take *t;
	int err;

	if (e->starve || e->takes - e->takes_completed == e->cap.max_recv_wr)
		return false;
	if (e->takes == e->takes_room) {
		e->takes_room = e->takes_room ? 2 * e->takes_room : 64;
		e->take = own(e->take, e->takes_room * sizeof(*e->take));
	}
	t = &e->take[e->takes];
	t->wr_id = dice_roll(d);
	t->length = e->world->style.max_length + (uint32_t)dice_below(d, 65);
	if (!cut(e, &e->inbox, t->length, e->cap.max_recv_sge, t->piece, &t->pieces))
		return false;
	for (uint32_t i = 0; i < t->pieces; i++)
		sge[i] = (struct ibv_sge){BASE(e) + t->piece[i].offset, t->piece[i].length, e->inbox_mr->base.lkey};
	wr.wr_id = t->wr_id;
	wr.sg_list = sge;
	wr.num_sge = (int)t->pieces;
	e->takes++;
	lock_take(&e->qp->lock);
	err = engine_post_recv(e->qp, &wr, &bad);
	lock_drop(&e->qp->lock);
	expect(e->world, e, !err, "post_recv says %d", err);
	return true;
}

static struct end *end_of(struct node *node, uint32_t qpn)
{
	struct world *w = container_of(node - node->index, struct world, node[0]);

	for (uint32_t i = 0; i < w->ends; i++)
		if (w->end[i].node == node && w->end[i].qpn == qpn)
			return &w->end[i];
	failed(w, NULL, "a completion of QP %06x, which is not there", qpn);
}

bool workload_poll(struct node *node, uint32_t number)
{
	struct world *w = container_of(node - node->index, struct world, node[0]);
	struct cq *cq = &node->cq[number];
	struct cqe cqe[16];
	int n;

	if (node->armed[number] && !node->woken[number])
		return false;
	node->armed[number] = false;
	n = cq_poll(cq, (int)dice_between(&w->dice, 1, 16), cqe);
	if (n == 0 && dice_chance(&w->dice, w->style.arm)) {
		node->woken[number] = false;
		cq_request(cq, false);
		n = cq_poll(cq, 16, cqe);
		node->armed[number] = n == 0;
	}
	for (int i = 0; i < n; i++) {
		struct end *e = end_of(node, cqe[i].qpn);

		e->nap = 0;
		if (cqe[i].opcode & IBV_WC_RECV)
			model_received(e, &cqe[i]);
		else
			model_completed(e, &cqe[i]);
	}
	return n;
}

static void drain_now_and_then(struct end *e)
{
	struct dice *d = &e->world->dice;

	if (e->qp->state == IBV_QPS_RTS && dice_chance(d, e->world->style.drain)) {
		e->draining = true;
		end_modify(e, IBV_QPS_SQD);
	} else if (e->qp->state == IBV_QPS_SQD && !e->draining && dice_chance(d, 0.3)) {
		end_modify(e, IBV_QPS_RTS);
		e->nap = 0;
	} else if (e->qp->state == IBV_QPS_SQD && shortage.chance) {
		end_resources(e);
	}
}

void workload_tick(struct end *e)
{
	struct style *s = &e->world->style;
	struct dice *d = &e->world->dice;
	bool did = false;

	if (e->state == END_DEAD)
		return;
	if (e->state == END_WORKS && e->qp->state != IBV_QPS_ERR)
		drain_now_and_then(e);
	objects_more(e->world, e->node, NULL);
	/* in ERR requests are taken all the same, and flushed at once; a few do */
	if (e->qp->state != IBV_QPS_ERR ? !dice_chance(d, s->lazy_receives) : e->late_takes++ < 3)
		while (post_receive(e) && dice_chance(d, 0.7))
			did = true;
	if (e->posted < e->planned &&
	    (e->state == END_CLOSED ? dice_chance(d, 0.1) : e->first_error < 0 && dice_chance(d, 0.6)))
		did |= post_sends(e);
	did |= workload_poll(e->node, (uint32_t)(e->send_cq - e->node->cq));
	did |= workload_poll(e->node, (uint32_t)(e->recv_cq - e->node->cq));
	e->nap = did || !e->nap ? s->pace : min_of(2 * e->nap, MSEC);
	e->tick_at = e->world->now + dice_between(d, 1, e->nap);
}

void workload_draw(struct world *w)
{
	static const uint64_t paces[] = {1 * USEC, 5 * USEC, 20 * USEC, 100 * USEC};
	struct dice *d = &w->dice;
	double roll = (double)dice_below(d, 10000) / 10000;
	bool huge = roll < 0.0005, big = roll < 0.04, lean = dice_chance(d, 0.5);
	struct style *s = &w->style;

	*s = (struct style){
		.pace = dice_pick(d, paces),
		.max_length = huge  ? 8u << 20
			      : big ? 256u << 10
				    : (uint32_t)dice_between(d, 1, 3 * 4096 + 100),
		.big = huge  ? 0.2
		       : big ? 0.3
			     : 1,
		.unsignalled = dice_chance(d, 0.5) ? 0 : 0.7,
		.fence = dice_chance(d, 0.7) ? 0 : 0.2,
		.use_inline = 0.5,
		.solicited = 0.2,
		.lazy_receives = dice_chance(d, 0.6)   ? 0
				 : dice_chance(d, 0.5) ? 0.5
						       : 0.95,
		.delay_ack = dice_chance(d, 0.3)   ? 0
			     : dice_chance(d, 0.5) ? 0.5
						   : 0.95,
		.run_now = dice_chance(d, 0.3)	 ? 1
			   : dice_chance(d, 0.5) ? 0.5
						 : 0.1,
		.arm = dice_chance(d, 0.5) ? 0 : 0.5,
		.drain = dice_chance(d, 0.9) ? 0 : 0.05,
		.dependent = dice_chance(d, 0.5) ? 0 : 0.5,
		.alike = dice_chance(d, 0.5) ? 0 : 0.8,
		.budget = 16u << dice_between(d, 10, 18),
	};
	for (int i = 0; i < KINDS; i++)
		s->weight[i] = lean && dice_chance(d, 0.5) ? 0 : (uint32_t)dice_between(d, 1, 10);
}
