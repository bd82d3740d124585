/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations on memory that can be accessed from here: no packet, and in order with requests that need
 * one. And long SENDs whose packet only says where the payload lies. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "memory/share.h"
#include "object/show.h"
#include "fast_path.h"

enum { LONG = 40000, LINK = 4096, SPAN = (LONG + LINK - 1) / LINK }; /* bytes of a SEND, of a packet; packets */
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static uint8_t there[LONG]; /* the peer's memory */
static struct mr *target, *own;
static struct reach *reach;

/* The peer is another QP of this process, as far as its memory is concerned. */
static int setup(void **state)
{
	struct fixture *f;

	if (fixture_setup(state))
		return -1;
	f = *state;
	if (share_create(&f->hca.share, 1, f->hca.keys.mix, f->hca.keys.mask, 4711) || reach_self(&reach, f->hca.share))
		return -1;
	target = mr_register(&f->pd, there, sizeof(there), IOVA, ALL);
	own = mr_register(&f->pd, f->memory, MEMORY, IOVA, ALL);
	memset(there, 't', sizeof(there));
	return target && own ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct share *share = f->hca.share;
	int err = mr_deregister(target) ?: own ? mr_deregister(own) : 0;

	fixture_teardown(state);
	reach_close(reach);
	share_destroy(share);
	return err;
}

static void open_peer(struct fixture *f)
{
	share_open_qp(f->hca.share, PEER_QPN & 0xffff, ALL, (uintptr_t)&f->pd,
		      share_pair(fixture_there.raw, PEER_QPN, fixture_here.raw, f->qp->base.qp_num));
}

static void start(struct fixture *f)
{
	fixture_start(f, IBV_QPS_RTS);
	open_peer(f);
	lock_take(&f->qp->lock);
	engine_reach(f->qp, reach);
	lock_drop(&f->qp->lock);
}

static void post(struct fixture *f, uint64_t id, enum ibv_wr_opcode opcode, uint32_t length, uint32_t rkey)
{
	assert_int_equal(fixture_post(f, (struct ibv_send_wr){.wr_id = id,
							      .opcode = opcode,
							      .num_sge = (int)length,
							      .send_flags = IBV_SEND_SIGNALED,
							      .wr.rdma = {IOVA, rkey}}),
			 0);
}

static void done_when_posted(void **state)
{
	struct fixture *f = *state;

	start(f);
	post(f, 1, IBV_WR_RDMA_READ, sizeof(there), target->base.rkey);
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f->memory, there, sizeof(there));
	memset(f->memory, 'w', 8);
	post(f, 2, IBV_WR_RDMA_WRITE, 8, target->base.rkey);
	expect_done(f, 2, IBV_WC_SUCCESS);
	assert_memory_equal(there, "wwwwwwwwt", 9);
	expect_silence(f);
}

static void or_when_those_before_it_are_done(void **state)
{
	struct fixture *f = *state;

	start(f);
	memset(f->memory, 'w', MEMORY);
	post(f, 1, IBV_WR_SEND, 8, 0);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	post(f, 2, IBV_WR_RDMA_WRITE, MTU + 1, target->base.rkey);
	post(f, 3, IBV_WR_RDMA_READ, sizeof(there), target->base.rkey);
	post(f, 4, IBV_WR_SEND, 8, 0);
	expect_silence(f);
	assert_int_equal(there[0], 't');
	fixture_give(f, ack(sent_psn(0), ACKED));
	for (uint64_t id = 1; id <= 3; id++)
		expect_done(f, id, IBV_WC_SUCCESS);
	assert_int_equal(there[MTU], 'w');
	assert_int_equal(there[MTU + 1], 't');
	assert_memory_equal(f->memory, there, sizeof(there));
	expect_sent(f, OP_SEND_ONLY, sent_psn(1)); /* what was done took no PSN */
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 4, IBV_WC_SUCCESS);
}

static void a_short_write_does_not_wait(void **state)
{
	struct fixture *f = *state;

	start(f);
	post(f, 1, IBV_WR_SEND, 8, 0);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	post(f, 2, IBV_WR_RDMA_WRITE, MTU, target->base.rkey);
	expect_sent(f, OP_WRITE_ONLY, sent_psn(1));
}

static void expect_written(struct fixture *f, uint32_t first)
{
	expect_sent(f, OP_WRITE_FIRST, sent_psn(first));
	expect_sent(f, OP_WRITE_LAST, sent_psn(first + 1));
}

/* One of them waits to see that; those after it do not, of which there are more each time. */
static void what_cannot_be_reached_is_asked_for(void **state)
{
	struct fixture *f = *state;
	uint32_t rkey = target->base.rkey ^ 1;

	start(f);
	post(f, 1, IBV_WR_SEND, 8, 0);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	for (uint64_t id = 2; id <= 7; id++)
		post(f, id, IBV_WR_RDMA_WRITE, MTU + 1, rkey);
	expect_silence(f);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_written(f, 1);
	expect_silence(f);
	fixture_give(f, ack(sent_psn(2), ACKED));
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_written(f, 3);
	expect_written(f, 5);
	expect_silence(f);
	fixture_give(f, ack(sent_psn(6), ACKED));
	expect_done(f, 3, IBV_WC_SUCCESS);
	expect_done(f, 4, IBV_WC_SUCCESS);
	for (uint32_t first = 7; first <= 11; first += 2)
		expect_written(f, first);
	expect_none(f);
}

/* Its first request has to come as a packet: the next need not. */
static void a_peer_that_is_not_ready_is_reached_soon(void **state)
{
	struct fixture *f = *state;

	start(f);
	share_close_qp(f->hca.share, PEER_QPN & 0xffff);
	post(f, 1, IBV_WR_RDMA_WRITE, MTU + 1, target->base.rkey);
	post(f, 2, IBV_WR_RDMA_WRITE, MTU + 1, target->base.rkey);
	expect_sent(f, OP_WRITE_FIRST, sent_psn(0));
	expect_sent(f, OP_WRITE_LAST, sent_psn(1));
	expect_silence(f);
	open_peer(f);
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_silence(f);
}

static void what_waits_is_flushed(void **state)
{
	struct fixture *f = *state;

	start(f);
	post(f, 1, IBV_WR_SEND, 8, 0);
	post(f, 2, IBV_WR_RDMA_READ, 8, target->base.rkey);
	assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	expect_done(f, 1, IBV_WC_WR_FLUSH_ERR);
	expect_done(f, 2, IBV_WC_WR_FLUSH_ERR);
}

/* What is done at once takes its place in the queue until it, or one after it, is polled. */
static void it_takes_a_place_until_polled(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .num_sge = 8, .wr.rdma = {IOVA, target->base.rkey}};

	f->cap.max_send_wr = 3;
	start(f);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 2; i++)
			assert_int_equal(fixture_post(f, wr), 0);
		post(f, 3, IBV_WR_RDMA_WRITE, 8, target->base.rkey);
		assert_int_equal(fixture_post(f, wr), ENOMEM);
		expect_done(f, 3, IBV_WC_SUCCESS);
		expect_silence(f);
	}
}

static void inline_data_of_many_pieces(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[3] = {{(uintptr_t) "abc", 3, 0}, {0, 0, 0}, {(uintptr_t) "defgh", 5, 0}};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = sge,
				 .num_sge = 3,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				 .wr.rdma = {IOVA + 1, target->base.rkey}};

	start(f);
	assert_int_equal(fixture_post(f, wr), 0);
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_memory_equal(there, "tabcdefght", 10);
	sge[2] = (struct ibv_sge){(uintptr_t)f->memory, f->qp->sq.max_inline - 2, 0};
	assert_int_equal(fixture_post(f, wr), EINVAL);
	sge[2].length--;
	assert_int_equal(fixture_post(f, wr), 0);
	expect_done(f, 1, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(fixture_post(f, wr), EINVAL);
	expect_silence(f);
}

static void of_many_pieces_of_its_own(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[3] = {{IOVA, 3, own->base.lkey}, {0, 0, 1}, {IOVA + 10, 5, own->base.lkey}};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = sge,
				 .num_sge = 3,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {IOVA, target->base.rkey}};
	int count = wr.num_sge;

	start(f);
	memcpy(f->memory, "abcdefghijklmnopqrst", 20);
	assert_int_equal(fixture_post(f, wr), 0);
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).byte_len, 8);
	assert_memory_equal(there, "abcklmnot", 9);
	wr.opcode = IBV_WR_RDMA_READ;
	memcpy(there, "12345678", 8);
	assert_int_equal(fixture_post(f, wr), 0);
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f->memory, "123defghij45678pqrst", 20);
	for (wr.num_sge = -1; wr.num_sge < (int)(2 * HCA_MAX_SGE); wr.num_sge += 2 * HCA_MAX_SGE)
		assert_int_equal(fixture_post(f, wr), EINVAL);
	wr.num_sge = count;
	wr.opcode = IBV_WR_RDMA_WRITE;
	sge[2].lkey ^= 1;
	assert_int_equal(fixture_post(f, wr), 0); /* the usual way knows what is wrong */
	expect_done(f, 1, IBV_WC_LOC_PROT_ERR);
}

static void atomics_tell_what_was_there(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = fixture_sge(f, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {IOVA, 3, 0, target->base.rkey}};
	uint64_t before = 39, now;

	start(f);
	memcpy(there, &before, 8);
	assert_int_equal(fixture_post(f, wr), 0);
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f->memory, &before, 8);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 7;
	assert_int_equal(fixture_post(f, wr), 0);
	expect_done(f, 1, IBV_WC_SUCCESS);
	memcpy(&now, there, 8);
	assert_true(now == 7);
	memcpy(&now, f->memory, 8);
	assert_true(now == 42);
	expect_silence(f);
}

/* An acknowledgement that is owed is a packet of its own, and leaves later. */
static void at_once_also_where_an_acknowledgement_is_owed(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = fixture_sge(f, 0, 8);
	struct ibv_send_wr send = {.wr_id = 3, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr wr[2] = {
		{.wr_id = 1, .next = &wr[1], .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1},
		{.wr_id = 2, .next = &send, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1},
	};

	for (int i = 0; i < 2; i++)
		wr[i].wr.rdma.remote_addr = IOVA, wr[i].wr.rdma.rkey = target->base.rkey;
	start(f);
	lock_take(&f->qp->lock);
	f->qp->resp.ack = ACK_OWED;
	assert_ptr_equal(engine_post_onesided(f->qp, wr), &send);
	f->qp->resp.ack = ACK_NONE;
	assert_int_equal(f->qp->sq.head, 2);
	lock_drop(&f->qp->lock);
	assert_int_equal(fixture_post(f, send), 0);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
}

/* Of a list of WRITEs, 8 bytes to each eighth byte but for the longer ones. */
struct listed {
	uint32_t length;
	unsigned flags;
	bool elsewhere; /* of another region than the others */
	bool denied;	/* its rkey is none */
};

enum { SIGNALED = IBV_SEND_SIGNALED, INLINE = IBV_SEND_INLINE, LIST = 8, STEP = 256 };

/* Item i brings bytes of value 'a' + i to STEP * i. */
static void make_list(struct fixture *f, const struct listed *row, int count, struct ibv_send_wr *wr,
		      struct ibv_sge *sge)
{
	for (int i = 0; i < count; i++) {
		memset(f->memory + STEP * i, 'a' + i, STEP);
		sge[i] = (struct ibv_sge){row[i].flags & INLINE ? (uintptr_t)f->memory + (uint64_t)(STEP * i)
								: (uint64_t)(IOVA + STEP * i),
					  row[i].length, row[i].elsewhere ? f->plain->base.lkey : own->base.lkey};
		wr[i] = (struct ibv_send_wr){
			.wr_id = (uint64_t)i + 1,
			.next = i + 1 < count ? &wr[i + 1] : NULL,
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge[i],
			.num_sge = 1,
			.send_flags = row[i].flags,
			.wr.rdma = {IOVA + (uint64_t)(STEP * i), row[i].denied ? 0 : target->base.rkey},
		};
	}
}

static void post_list(struct fixture *f, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	lock_take(&f->qp->lock);
	wr = engine_post_onesided(f->qp, wr);
	if (wr)
		assert_int_equal(engine_post_send(f->qp, wr, &bad), 0);
	lock_drop(&f->qp->lock);
	fixture_run(f);
}

static void expect_listed(const struct listed *row, int i)
{
	for (uint32_t n = 0; n < row->length; n++)
		assert_int_equal(there[STEP * i + (int)n], 'a' + i);
	assert_int_equal(there[STEP * i + (int)row->length], 't');
}

static void a_list_of_writes_is_done_in_order(void **state)
{
	static const struct listed rows[][LIST] = {
		{{8, SIGNALED}, {8, SIGNALED}, {8, SIGNALED}, {8, SIGNALED}},
		{{8, 0}, {8, 0}, {8, 0}, {8, SIGNALED}},
		{{8, SIGNALED}, {8, SIGNALED | INLINE}, {13, 0}, {64, INLINE | SIGNALED}},
		{{8, INLINE}, {8, SIGNALED | INLINE}, {200, SIGNALED}, {1, SIGNALED}, {8, SIGNALED}},
		{{8, SIGNALED}, {8, SIGNALED, .elsewhere = true}, {8, SIGNALED}, {24, SIGNALED, .elsewhere = true}},
	};

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		struct fixture *f = *state;
		struct ibv_send_wr wr[LIST];
		struct ibv_sge sge[LIST];
		int count = 0;

		while (count < LIST && rows[r][count].length)
			count++;
		start(f);
		make_list(f, rows[r], count, wr, sge);
		post_list(f, wr);
		for (int i = 0; i < count; i++) {
			expect_listed(&rows[r][i], i);
			if (rows[r][i].flags & SIGNALED)
				expect_done(f, (uint64_t)i + 1, IBV_WC_SUCCESS);
		}
		expect_silence(f);
		assert_int_equal(f->qp->sq.head, count);
		assert_int_equal(f->qp->req.wqe, count);
		teardown(state);
		assert_int_equal(setup(state), 0);
	}
}

/* What the local peer refuses leaves as packets, and what comes behind it waits. */
static void a_list_stops_at_what_is_refused(void **state)
{
	static const struct listed row[] = {{8, SIGNALED}, {8, SIGNALED}, {8, SIGNALED, .denied = true}, {8, SIGNALED}};
	struct fixture *f = *state;
	struct ibv_send_wr wr[ARRAY_SIZE(row)];
	struct ibv_sge sge[ARRAY_SIZE(row)];

	start(f);
	make_list(f, row, ARRAY_SIZE(row), wr, sge);
	post_list(f, wr);
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_sent(f, OP_WRITE_ONLY, sent_psn(0));
	assert_int_equal(there[STEP * 3], 't');
	fixture_give(f, ack(sent_psn(0), NAK_REMOTE_ACCESS));
	expect_done(f, 3, IBV_WC_REM_ACCESS_ERR);
	expect_done(f, 4, IBV_WC_WR_FLUSH_ERR);
}

static void a_list_wakes_who_waits_once(void **state)
{
	static const struct listed row[] = {{8, SIGNALED}, {8, SIGNALED}, {8, SIGNALED}};
	struct fixture *f = *state;
	struct ibv_send_wr wr[ARRAY_SIZE(row)];
	struct ibv_sge sge[ARRAY_SIZE(row)];

	start(f);
	cq_request(&f->send_cq, false);
	make_list(f, row, ARRAY_SIZE(row), wr, sge);
	post_list(f, wr);
	assert_int_equal(f->cq_events, 1);
	for (uint64_t id = 1; id <= ARRAY_SIZE(row); id++)
		expect_done(f, id, IBV_WC_SUCCESS);
}

/* The CQ has room for two of three. */
static void a_list_may_overrun_the_queue(void **state)
{
	static const struct listed row[] = {{8, SIGNALED}, {8, SIGNALED}, {8, SIGNALED}};
	struct fixture *f = *state;
	struct ibv_send_wr wr[ARRAY_SIZE(row)];
	struct ibv_sge sge[ARRAY_SIZE(row)];

	start(f);
	assert_int_equal(cq_resize(&f->send_cq, 2), 0);
	make_list(f, row, ARRAY_SIZE(row), wr, sge);
	post_list(f, wr);
	assert_int_equal(f->cq_errors, 1);
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_silence(f);
}

static void start_lossless(struct fixture *f)
{
	start(f);
	lock_take(&f->qp->lock);
	assert_true(engine_change_link(f->qp, LINK));
	lock_drop(&f->qp->lock);
}

/* From two places, of our own region. */
static void post_long(struct fixture *f, uint64_t id)
{
	struct ibv_sge sge[2] = {{IOVA, LONG - 7, own->base.lkey}, {IOVA + LONG, 7, own->base.lkey}};
	struct ibv_send_wr wr = {
		.wr_id = id, .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2, .send_flags = IBV_SEND_SIGNALED};

	assert_int_equal(fixture_post(f, wr), 0);
}

static void of_a_long_send_the_place_is_sent(void **state)
{
	struct fixture *f = *state;
	struct packet_piece piece[2];
	const struct sent *s;

	start_lossless(f);
	post_long(f, 1);
	post(f, 2, IBV_WR_SEND, 8, 0);
	s = expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	assert_int_equal(s->packet.length, LONG);
	assert_int_equal(s->packet.pieces, 2);
	memcpy(piece, s->payload, sizeof(piece));
	assert_true(piece[0].address == IOVA && piece[0].length == LONG - 7 && piece[0].rkey == own->base.rkey);
	assert_true(piece[1].address == IOVA + LONG && piece[1].length == 7);
	expect_sent(f, OP_SEND_ONLY, sent_psn(SPAN)); /* as many PSNs as by packets */
	fixture_give(f, ack(sent_psn(SPAN - 1), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_none(f);
}

/* The peer asks for it again: then it comes whole, and so do those after it. That costs no retry. */
static void who_cannot_fetch_it_is_sent_it(void **state)
{
	struct fixture *f = *state;

	f->attr.retry_cnt = 0;
	start_lossless(f);
	post_long(f, 1);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	fixture_give(f, ack(sent_psn(0), NAK_SEQUENCE));
	assert_int_equal(expect_sent(f, OP_SEND_FIRST, sent_psn(0))->packet.pieces, 0);
	f->shown = f->sents;
	fixture_give(f, ack(sent_psn(SPAN - 1), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	post_long(f, 2);
	expect_sent(f, OP_SEND_FIRST, sent_psn(SPAN));
}

/* The data of a WRITE with immediate, too; a WRITE without one needs no packet. */
static void of_a_long_write_with_immediate_too(void **state)
{
	struct fixture *f = *state;
	struct packet_piece piece;
	struct ibv_sge sge = {IOVA, LONG, 0};
	const struct sent *s;

	start_lossless(f);
	sge.lkey = own->base.lkey;
	assert_int_equal(fixture_post(f, (struct ibv_send_wr){.wr_id = 1,
							      .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
							      .sg_list = &sge,
							      .num_sge = 1,
							      .send_flags = IBV_SEND_SIGNALED,
							      .imm_data = htobe32(7),
							      .wr.rdma = {IOVA + 5, 0x1234}}),
			 0);
	s = expect_sent(f, OP_WRITE_ONLY_IMM, sent_psn(0));
	assert_int_equal(s->packet.length, LONG);
	assert_int_equal(s->packet.dma_length, LONG);
	assert_int_equal(s->packet.pieces, 1);
	memcpy(&piece, s->payload, sizeof(piece));
	assert_true(piece.address == IOVA && piece.length == LONG && piece.rkey == own->base.rkey);
	fixture_give(f, ack(sent_psn(SPAN - 1), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void what_is_deregistered_too_early_fails_as_ever(void **state)
{
	struct fixture *f = *state;

	start_lossless(f);
	post_long(f, 1);
	assert_int_equal(mr_deregister(own), 0);
	own = NULL;
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	fixture_give(f, ack(sent_psn(0), NAK_SEQUENCE));
	expect_done(f, 1, IBV_WC_LOC_PROT_ERR);
}

static void what_is_suspended_is_not_reached_and_has_another_key_then(void **state)
{
	struct fixture *f = *state;
	uint32_t key = target->base.rkey;

	start(f);
	mr_suspend(target);
	post(f, 1, IBV_WR_RDMA_WRITE, 8, key);
	expect_sent(f, OP_WRITE_ONLY, sent_psn(0)); /* by the usual way, which is told why */
	assert_null(mr_get(&f->hca, key));
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	show_settle(&f->hca);
	mr_resume(target);
	assert_int_not_equal(target->base.rkey, key);
	assert_null(mr_get(&f->hca, key));
	post(f, 2, IBV_WR_RDMA_WRITE, 8, target->base.rkey);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_silence(f);
	mr_suspend(target); /* teardown deregisters it so */
}

/* A visitor that is stopped inside is waited for, unless there is nothing where it could be. */
static void where_no_region_is_nobody_is_waited_for(void **state)
{
	struct fixture *f = *state;
	struct hca bare = {.share = f->hca.share};

	start(f);
	share_admit(bare.share, 7, 4712, getpid());
	atomic_store(&bare.share->table->visitor[7].hazard[0].count, 1);
	share_close_qp(bare.share, PEER_QPN & 0xffff);
	show_settle(&bare);
	assert_false(show_has_settled(&bare, show_closed(&bare)));
	share_expel(bare.share, 7, 4712);
}

/* A SEND of the peer's, of two pieces of its memory. */
static void give_long(struct fixture *f, psn_t at, uint32_t lkey)
{
	const struct packet_piece piece[2] = {{IOVA + 100, LONG - 100, lkey}, {IOVA, 100, lkey}};
	struct packet p = request(OP_SEND_ONLY, at, LONG);

	p.pieces = 2;
	p.payload = (const uint8_t *)piece;
	p.mtu = LINK;
	fixture_give(f, p);
}

static void post_long_receive(struct fixture *f, uint64_t id)
{
	struct ibv_sge sge[2] = {fixture_sge(f, 3, 1000), fixture_sge(f, 2000, LONG)};
	struct ibv_recv_wr *bad = NULL, wr = {.wr_id = id, .sg_list = sge, .num_sge = 2};

	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_recv(f->qp, &wr, &bad), 0);
	lock_drop(&f->qp->lock);
}

static void post_one_receive(struct fixture *f, uint64_t id, uint32_t length)
{
	struct ibv_sge sge = fixture_sge(f, 0, length);
	struct ibv_recv_wr *bad = NULL, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_recv(f->qp, &wr, &bad), 0);
	lock_drop(&f->qp->lock);
}

static void what_is_referred_to_is_fetched(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < LONG; i++)
		there[i] = (uint8_t)(i * 7 + i / 256);
	start_lossless(f);
	give_long(f, due_psn(0), target->base.lkey);
	expect_silence(f);
	post_long_receive(f, 1);
	give_long(f, due_psn(0), target->base.lkey);
	assert_int_equal(expect_taken(f, 1, IBV_WC_SUCCESS).byte_len, LONG);
	expect_ack(f, due_psn(SPAN - 1), ACKED);
	assert_memory_equal(f->memory + 3, there + 100, 1000);
	assert_memory_equal(f->memory + 2000, there + 1100, LONG - 1100);
	assert_memory_equal(f->memory + 2000 + LONG - 1100, there, 100);
	give_long(f, due_psn(0), target->base.lkey); /* a duplicate */
	expect_ack(f, due_psn(SPAN - 1), ACKED);
	expect_none(f);
}

/* A WRITE with immediate of the peer's, from its memory to this one's. */
static void give_long_write(struct fixture *f, psn_t at, uint32_t lkey, uint32_t rkey)
{
	const struct packet_piece piece = {IOVA, LONG, lkey};
	struct packet p = request(OP_WRITE_ONLY_IMM, at, LONG);

	p.pieces = 1;
	p.payload = (const uint8_t *)&piece;
	p.mtu = LINK;
	p.va = IOVA + 100;
	p.rkey = rkey;
	p.dma_length = LONG;
	fixture_give(f, p);
}

static void what_a_write_refers_to_is_fetched(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < LONG; i++)
		there[i] = (uint8_t)(i * 13 + i / 256);
	start_lossless(f);
	post_one_receive(f, 1, 0);
	give_long_write(f, due_psn(0), target->base.lkey ^ 1, own->base.rkey);
	expect_ack(f, due_psn(0), NAK_SEQUENCE); /* by packets, please */
	give_long_write(f, due_psn(0), target->base.lkey, own->base.rkey);
	assert_int_equal(expect_taken(f, 1, IBV_WC_SUCCESS).byte_len, LONG);
	expect_ack(f, due_psn(SPAN - 1), ACKED);
	assert_memory_equal(f->memory + 100, there, LONG);
	memset(f->memory, 0, MEMORY);
	give_long_write(f, due_psn(0), target->base.lkey, own->base.rkey); /* a duplicate is not executed */
	expect_ack(f, due_psn(SPAN - 1), ACKED);
	assert_int_equal(f->memory[100], 0);
	post_one_receive(f, 2, 0);
	give_long_write(f, due_psn(SPAN), target->base.lkey, own->base.rkey ^ 1); /* nor is one without the right */
	assert_int_equal(f->memory[100], 0);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

/* By a key that is not there, or of a request that has failed: what its memory holds by now is not what was sent. */
static void what_cannot_be_fetched_is_asked_for_again(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY, due_psn(0), 8);

	start_lossless(f);
	post_long_receive(f, 1);
	give_long(f, due_psn(0), target->base.lkey ^ 1);
	expect_ack(f, due_psn(0), NAK_SEQUENCE);
	share_close_qp(f->hca.share, PEER_QPN & 0xffff);
	give_long(f, due_psn(0), target->base.lkey);
	expect_ack(f, due_psn(0), NAK_SEQUENCE);
	expect_none(f);
	fixture_give(f, p); /* the receive is still there */
	assert_int_equal(expect_taken(f, 1, IBV_WC_SUCCESS).byte_len, 8);
}

/* One piece, the fast path. */
static bool give_piece(struct fixture *f, psn_t at, uint32_t lkey)
{
	const struct packet_piece piece = {IOVA, LONG, lkey};
	struct packet p = request(OP_SEND_ONLY, at, LONG);

	p.pieces = 1;
	p.mtu = LINK;
	p.ack_request = true;
	memcpy(f->payload, &piece, sizeof(piece));
	return give(f, p);
}

static void one_piece_is_fetched_the_straight_way(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < LONG; i++)
		there[i] = (uint8_t)(i * 11 + i / 256);
	start_lossless(f);
	assert_false(give_piece(f, due_psn(0), target->base.lkey)); /* no receive */
	post_one_receive(f, 1, LONG - 1);
	assert_false(give_piece(f, due_psn(0), target->base.lkey)); /* too short */
	post_one_receive(f, 2, LONG);
	f->qp->rq.head++;
	assert_true(give_piece(f, due_psn(0), target->base.lkey));
	assert_int_equal(expect_taken(f, 2, IBV_WC_SUCCESS).byte_len, LONG);
	assert_memory_equal(f->memory, there, LONG);
	fixture_run(f);
	expect_ack(f, due_psn(SPAN - 1), ACKED);
	post_one_receive(f, 3, LONG);
	assert_false(give_piece(f, due_psn(0), target->base.lkey)); /* a duplicate */
	assert_true(give_piece(f, due_psn(SPAN), target->base.lkey));
	expect_taken(f, 3, IBV_WC_SUCCESS);
}

static void what_cannot_be_fetched_does_not_go_straight(void **state)
{
	struct fixture *f = *state;

	start_lossless(f);
	post_one_receive(f, 1, LONG);
	assert_false(give_piece(f, due_psn(0), target->base.lkey ^ 1));
	share_close_qp(f->hca.share, PEER_QPN & 0xffff); /* the request has failed: its memory is the program's again */
	assert_false(give_piece(f, due_psn(0), target->base.lkey));
	expect_none(f);
	assert_int_equal(f->qp->rq.tail - f->qp->rq.head, 1);
}

static void an_acknowledgement_of_long_sends_goes_straight(void **state)
{
	struct fixture *f = *state;
	struct packet p = ack(sent_psn(SPAN - 2), ACKED);

	start_lossless(f);
	post_long(f, 1);
	post(f, 2, IBV_WR_SEND, 8, 0);
	assert_false(give(f, p)); /* not all of the first */
	p.psn = sent_psn(SPAN);
	assert_true(give(f, p));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(f->qp->req.flight, 0);
}

#define OWN_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OWN_TEST(done_when_posted),
		OWN_TEST(or_when_those_before_it_are_done),
		OWN_TEST(a_short_write_does_not_wait),
		OWN_TEST(what_cannot_be_reached_is_asked_for),
		OWN_TEST(a_peer_that_is_not_ready_is_reached_soon),
		OWN_TEST(what_waits_is_flushed),
		OWN_TEST(it_takes_a_place_until_polled),
		OWN_TEST(inline_data_of_many_pieces),
		OWN_TEST(of_many_pieces_of_its_own),
		OWN_TEST(atomics_tell_what_was_there),
		OWN_TEST(at_once_also_where_an_acknowledgement_is_owed),
		OWN_TEST(a_list_of_writes_is_done_in_order),
		OWN_TEST(a_list_stops_at_what_is_refused),
		OWN_TEST(a_list_wakes_who_waits_once),
		OWN_TEST(a_list_may_overrun_the_queue),
		OWN_TEST(of_a_long_send_the_place_is_sent),
		OWN_TEST(of_a_long_write_with_immediate_too),
		OWN_TEST(who_cannot_fetch_it_is_sent_it),
		OWN_TEST(what_is_deregistered_too_early_fails_as_ever),
		OWN_TEST(what_is_suspended_is_not_reached_and_has_another_key_then),
		OWN_TEST(where_no_region_is_nobody_is_waited_for),
		OWN_TEST(what_is_referred_to_is_fetched),
		OWN_TEST(what_a_write_refers_to_is_fetched),
		OWN_TEST(what_cannot_be_fetched_is_asked_for_again),
		OWN_TEST(one_piece_is_fetched_the_straight_way),
		OWN_TEST(what_cannot_be_fetched_does_not_go_straight),
		OWN_TEST(an_acknowledgement_of_long_sends_goes_straight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
