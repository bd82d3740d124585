// SPDX-License-Identifier: BSD-2-Clause
/* Everything at once, both ways. Each end makes a stream of random requests to the other's memory. A stream
 * is a pure function of its seed, so each end follows both: what it asks, and what it is to be asked. */
#include <arpa/inet.h>
#include <string.h>

#include "exchange.h"

enum {
	AREA = 64 * 1024, /* what it works on */
	PIECE = 6000,	  /* its longest message */
	WINDOW = 32,	  /* send requests that it has outstanding */
};

enum kind { WRITE, WRITE_IMM, SEND, SEND_IMM, READ, ADD, SWAP, KINDS };

static const struct {
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode completion;
	bool uses_receive, immediate;
} kinds[KINDS] = {
	[WRITE] = {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, false, false},
	[WRITE_IMM] = {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, true, true},
	[SEND] = {IBV_WR_SEND, IBV_WC_SEND, true, false},
	[SEND_IMM] = {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, true, true},
	[READ] = {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, false, false},
	[ADD] = {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, false, false},
	[SWAP] = {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, false, false},
};

struct operation {
	enum kind kind;
	uint32_t number, offset, length;
	uint64_t compare_add, swap, was; /* of atomics */
	bool signaled;
};

struct stream {
	uint64_t random;
	uint32_t number;
	uint8_t *model; /* the target's memory as the requests so far leave it */
};

static uint32_t random_below(struct stream *s, uint32_t limit)
{
	s->random = s->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((s->random >> 33) % limit);
}

static struct operation stream_next(struct stream *s)
{
	static const uint32_t spans[] = {8, 200, 2048, PIECE};
	struct operation op = {.number = s->number++};
	uint64_t *word;

	op.kind = (enum kind)random_below(s, KINDS);
	op.length = random_below(s, spans[random_below(s, 4)]);
	/* A lost response to a READ of no bytes would be the end: rxe of 6.12 does not answer those again. */
	op.length += op.kind == READ && !op.length;
	op.offset = random_below(s, AREA - PIECE);
	op.signaled = random_below(s, 3) == 0;
	switch (op.kind) {
	case WRITE:
	case WRITE_IMM:
		fill(s->model + op.offset, op.number, op.length);
		break;
	case ADD:
	case SWAP:
		op.length = 8;
		op.offset &= ~7u;
		word = (uint64_t *)(s->model + op.offset);
		op.was = *word;
		op.swap = s->random;
		op.compare_add = op.kind == ADD ? s->random | 1 : random_below(s, 4) ? op.was : op.was + 1;
		if (op.kind == ADD)
			*word += op.compare_add;
		else if (op.compare_add == op.was)
			*word = op.swap;
		break;
	default:
		break;
	}
	return op;
}

static struct outstanding {
	struct operation op;
	uint8_t expected[PIECE]; /* by a READ */
} window[WINDOW];

static uint8_t *window_buffer(uint32_t number)
{
	return own + (number % WINDOW) * 8192;
}

/* A READ that is repeated after a loss sees what later requests did, as IBTA allows; so those that change
 * memory wait. */
static void mixed_post(struct operation op, const uint8_t *model, bool read_outstanding)
{
	struct outstanding *o = &window[op.number % WINDOW];
	uint8_t *at = window_buffer(op.number);
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, kinds[op.kind].opcode, at, op.length, op.offset);

	o->op = op;
	wr.wr_id = op.number;
	wr.send_flags = op.signaled ? IBV_SEND_SIGNALED : 0;
	wr.imm_data = htonl(op.number);
	switch (op.kind) {
	case READ:
		memcpy(o->expected, model + op.offset, op.length);
		memset(at, 0, op.length + 64);
		break;
	case ADD:
	case SWAP:
		wr.wr.atomic.remote_addr = peer.addr + op.offset;
		wr.wr.atomic.rkey = peer.rkey;
		wr.wr.atomic.compare_add = op.compare_add;
		wr.wr.atomic.swap = op.swap;
		wr.send_flags |= read_outstanding ? IBV_SEND_FENCE : 0;
		break;
	default:
		fill(at, op.number, op.length);
		wr.send_flags |= op.length <= INLINE ? IBV_SEND_INLINE : 0;
		wr.send_flags |= read_outstanding ? IBV_SEND_FENCE : 0;
	}
	post(&wr);
	if (wr.send_flags & IBV_SEND_INLINE)
		memset(at, 0xee, op.length);
}

static void mixed_completed(const struct outstanding *o)
{
	const uint8_t *at = window_buffer(o->op.number);

	if (o->op.kind == READ)
		CHECK(!memcmp(at, o->expected, o->op.length), "read %u of %u bytes at %u: other data", o->op.number,
		      o->op.length, o->op.offset);
	if (o->op.kind == ADD || o->op.kind == SWAP)
		CHECK(*(uint64_t *)at == o->op.was, "atomic %u at %u returned %016lx, not %016lx", o->op.number,
		      o->op.offset, *(uint64_t *)at, o->op.was);
}

static void mixed_received(const struct ibv_wc *wc, const struct operation *op)
{
	const uint8_t *at = target + AREA + 8192 * wc->wr_id;
	bool is_write = op->kind == WRITE_IMM;

	CHECK(wc->status == IBV_WC_SUCCESS, "receive: %s", ibv_wc_status_str(wc->status));
	CHECK(wc->opcode == (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) && wc->byte_len == op->length,
	      "receive for request %u: opcode %d, length %u, not %u", op->number, wc->opcode, wc->byte_len, op->length);
	CHECK(!kinds[op->kind].immediate || wc->imm_data == htonl(op->number), "request %u: immediate %u", op->number,
	      ntohl(wc->imm_data));
	for (uint32_t i = 0; !is_write && i < op->length; i++)
		CHECK(at[i] == pattern(op->number, i), "send %u: byte %u of %u", op->number, i, op->length);
}

static bool stream_next_receive(struct stream *s, struct operation *op)
{
	while (s->number < (uint32_t)settings.operations) {
		*op = stream_next(s);
		if (kinds[op->kind].uses_receive)
			return true;
	}
	return false;
}

void scenario_mixed(void)
{
	static uint8_t our_model[AREA], their_model[AREA];
	struct stream ours = {.random = settings.seed * 2 + active, .model = our_model};
	struct stream theirs = {.random = settings.seed * 2 + !active, .model = their_model};
	uint32_t posted = 0, done = 0, last_read = 0; /* each one more than a number */
	struct operation next, awaited = {0};
	struct ibv_wc wc;
	bool have_next = false, more;

	for (uint64_t i = 0; i < RECEIVES; i++)
		post_receive(i, target + AREA + 8192 * i, PIECE);
	more = stream_next_receive(&theirs, &awaited);
	ready();
	while (done < (uint32_t)settings.operations || more) {
		if (!have_next && ours.number < (uint32_t)settings.operations) {
			next = stream_next(&ours);
			if (next.kind == READ && settings.short_reads && next.length > (uint32_t)settings.mtu)
				next.length = (uint32_t)settings.mtu;
			have_next = true;
			/* Something must tell that there is room again. */
			next.signaled |= next.number % 8 == 7 || next.number == (uint32_t)settings.operations - 1 ||
					 (settings.wait_for_reads && next.kind == READ);
		}
		if (have_next && next.number < done + WINDOW &&
		    !(settings.wait_for_reads && last_read > done && next.kind != READ)) {
			mixed_post(next, our_model, last_read > done);
			if (next.kind == READ)
				last_read = next.number + 1;
			posted = next.number + 1;
			have_next = false;
		}
		if (poll_once(send_cq, &wc)) {
			CHECK(wc.status == IBV_WC_SUCCESS, "request %d: %s", (int)wc.wr_id,
			      ibv_wc_status_str(wc.status));
			CHECK(wc.wr_id >= done && wc.wr_id < posted, "request %d completed at %u", (int)wc.wr_id, done);
			CHECK(wc.opcode == kinds[window[wc.wr_id % WINDOW].op.kind].completion, "request %d: opcode %d",
			      (int)wc.wr_id, wc.opcode);
			for (; done <= wc.wr_id; done++)
				mixed_completed(&window[done % WINDOW]);
		}
		if (poll_once(recv_cq, &wc)) {
			CHECK(more || wc.status != IBV_WC_SUCCESS, "a receive too many");
			mixed_received(&wc, &awaited);
			post_receive(wc.wr_id, target + AREA + 8192 * wc.wr_id, PIECE);
			more = stream_next_receive(&theirs, &awaited);
		}
	}
	barrier();
	CHECK(!memcmp(target, their_model, AREA), "memory is not what the requests make of it");
}
