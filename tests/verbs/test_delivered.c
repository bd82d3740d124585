/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages between QPs of one host that are done when ibv_post_send() returns: nothing overtakes them, and none is lost
 * when their receiver fails, is moved to ERR, or begins anew. */
#include "verbs/fixture.h"

#include <string.h>

#include "base/hooks.h"
#include "engine/engine.h"
#include "loop/loop.h"
#include "object/qp.h"

static void receive_at(struct side *s, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = piece(s, offset, length);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;

	assert_int_equal(ibv_post_recv(s->qp, &wr, &bad), 0);
}

static void send_as(struct side *s, size_t offset, uint32_t length, unsigned flags)
{
	struct ibv_sge sge = piece(s, offset, length);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};

	assert_int_equal(side_send(s, &wr), 0);
}

static void send_from(struct side *s, size_t offset, uint32_t length)
{
	send_as(s, offset, length, IBV_SEND_SIGNALED);
}

static bool is_done(struct side *s)
{
	struct qp *qp = (struct qp *)s->qp;
	bool done;

	lock_take(&qp->lock);
	done = qp->sq.head == qp->sq.tail;
	lock_drop(&qp->lock);
	return done;
}

/* Connects the two, and passes a first message in each direction, which goes as a packet. */
static void begin(struct side *s)
{
	connect_sides(s);
	for (int i = 0; i < 2; i++) {
		receive_at(&s[!i], 1000, 0, 64);
		send_from(&s[i], 0, 8);
		assert_int_equal(next(s[i].cq).status, IBV_WC_SUCCESS);
		assert_int_equal(next(s[!i].cq).wr_id, 1000);
	}
}

static void expect(struct side *s, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next(s->cq);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

/* The target's program does nothing between the post and the look. */
static void a_message_is_done_when_it_is_posted(void **state)
{
	struct side *s = *state;

	begin(s);
	for (uint32_t length = 1; length <= 16384; length = length * 3 + 1) {
		memset(s[0].memory, (int)length, length);
		receive_at(&s[1], length, 0, 32768);
		send_from(&s[0], 0, length);
		assert_true(is_done(&s[0]) || (reach_maps_nothing && length > REACH_CARRY_MOST));
		if (!reach_maps_nothing)
			assert_memory_equal(s[1].memory, s[0].memory, length);
		expect(&s[1], length, IBV_WC_SUCCESS);
		assert_memory_equal(s[1].memory, s[0].memory, length);
		expect(&s[0], 0, IBV_WC_SUCCESS);
	}
}

/* The region of a receive is deregistered after its message was done, and before its completion was polled. */
static void what_its_region_takes_no_more_fails_the_receiver(void **state)
{
	struct side *s = *state;
	struct ibv_mr *mr = ibv_reg_mr(s[1].pd, s[1].memory, MEMORY, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)s[1].memory, 64, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
	struct qp *to = (struct qp *)s[1].qp;

	begin(s);
	assert_int_equal(ibv_post_recv(s[1].qp, &wr, &bad), 0);
	receive_at(&s[1], 2, 64, 64);
	lock_take(&loop_of(to)->receive); /* so that nobody receives it */
	send_from(&s[0], 0, 8);
	assert_true(is_done(&s[0]));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	lock_drop(&loop_of(to)->receive);
	expect(&s[0], 0, IBV_WC_SUCCESS);
	expect(&s[1], 1, reach_maps_nothing ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
	assert_int_equal(qp_state_now((struct qp *)s[1].qp) == IBV_QPS_ERR, reach_maps_nothing);
	if (reach_maps_nothing)
		expect(&s[1], 2, IBV_WC_WR_FLUSH_ERR);
}

static void a_write_does_not_overtake_it(void **state)
{
	struct side *s = *state;

	begin(s);
	memset(s[0].memory, 'a', 64);
	memset(s[0].memory + 64, 'b', 8);
	receive_at(&s[1], 1, 0, 64);
	send_from(&s[0], 0, 64);
	expect(&s[0], 0, IBV_WC_SUCCESS);
	assert_int_equal(ibv_post_send(s[0].qp,
				       &(struct ibv_send_wr){
					       .sg_list = &(struct ibv_sge){piece(&s[0], 64, 8).addr, 8, s[0].mr->lkey},
					       .num_sge = 1,
					       .opcode = IBV_WR_RDMA_WRITE,
					       .send_flags = IBV_SEND_SIGNALED,
					       .wr.rdma = {(uintptr_t)s[1].memory, s[1].mr->rkey}},
				       &(struct ibv_send_wr *){NULL}),
			 0);
	expect(&s[0], 0, IBV_WC_SUCCESS);
	expect(&s[1], 1, IBV_WC_SUCCESS);
	assert_memory_equal(s[1].memory, "bbbbbbbbaaaa", 12);
}

/* A request that needs no packet passes through the queue while a message is not taken yet: the next one must not use
 * the same receive. */
static void what_is_done_in_the_queue_leaves_the_receives_alone(void **state)
{
	struct side *s = *state;
	struct ibv_mw *mw = ibv_alloc_mw(s[0].pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = ibv_reg_mr(s[0].pd, s[0].memory, MEMORY, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW};

	assert_non_null(mw);
	assert_non_null(mr);
	begin(s);
	for (uint64_t i = 0; i < 2; i++)
		receive_at(&s[1], i, 64 * i, 64);
	memcpy(s[0].memory, "first   second  ", 16);
	send_as(&s[0], 0, 8, 0);
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)s[0].memory, 64, IBV_ACCESS_REMOTE_READ};
	assert_int_equal(side_send(&s[0], &bind), 0);
	assert_true(is_done(&s[0]));
	send_as(&s[0], 8, 8, 0);
	assert_true(is_done(&s[0]));
	for (uint64_t i = 0; i < 2; i++)
		expect(&s[1], i, IBV_WC_SUCCESS);
	assert_memory_equal(s[1].memory, "first   ", 8);
	assert_memory_equal(s[1].memory + 64, "second  ", 8);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Posts a SEND, that request and a SEND, with ids from 0 on, as a list. */
static void post_between(struct side *s, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge[3] = {piece(s, 0, 8), piece(s, 8, 8), piece(s, 16, 8)};
	uint64_t at = (uintptr_t)s[1].memory + 1024;
	struct ibv_send_wr wr[3];

	memcpy(s[0].memory, "first   middle  last    ", 24);
	memset(s[1].memory, '.', 2048);
	for (int n = 0; n < 3; n++) {
		wr[n] = (struct ibv_send_wr){.wr_id = (uint64_t)n,
					     .next = n < 2 ? &wr[n + 1] : NULL,
					     .sg_list = &sge[n],
					     .num_sge = 1,
					     .opcode = n == 1 ? opcode : IBV_WR_SEND,
					     .send_flags = IBV_SEND_SIGNALED};
		receive_at(&s[1], (uint64_t)n, 64 * (size_t)n, 64);
	}
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr[1].wr.atomic.remote_addr = at;
		wr[1].wr.atomic.rkey = s[1].mr->rkey;
	} else if (opcode == IBV_WR_SEND_WITH_INV) {
		wr[1].invalidate_rkey = 0x1234; /* of nothing */
	} else {
		wr[1].wr.rdma.remote_addr = at;
		wr[1].wr.rdma.rkey = s[1].mr->rkey;
	}
	assert_int_equal(ibv_post_send(s[0].qp, wr, &(struct ibv_send_wr *){NULL}), 0);
	expect(&s[0], 0, IBV_WC_SUCCESS);
	expect(&s[1], 0, IBV_WC_SUCCESS);
	assert_memory_equal(s[1].memory, "first   ....", 12);
}

/* What stands behind a SEND in a list is what it says, and not a message. */
static void a_list_may_have_any_request_behind_it(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		bool takes, writes;
	} rows[] = {
		{IBV_WR_RDMA_WRITE, .writes = true}, {IBV_WR_RDMA_WRITE_WITH_IMM, true, true},
		{IBV_WR_SEND_WITH_IMM, true},	     {IBV_WR_RDMA_READ},
		{IBV_WR_ATOMIC_CMP_AND_SWP},	     {IBV_WR_ATOMIC_FETCH_AND_ADD},
	};
	struct side *s = *state;

	begin(s);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t last = rows[i].takes ? 128 : 64;

		post_between(s, rows[i].opcode);
		for (uint64_t n = 1; n < 3; n++)
			expect(&s[0], n, IBV_WC_SUCCESS);
		for (uint64_t n = 1; n <= last / 64; n++)
			expect(&s[1], n, IBV_WC_SUCCESS);
		assert_memory_equal(s[1].memory + last, "last    ....", 12);
		if (rows[i].writes)
			assert_memory_equal(s[1].memory + 1024, "middle  ....", 12);
		else if (rows[i].takes)
			assert_memory_equal(s[1].memory + 64, "middle  ....", 12);
		else
			assert_memory_equal(s[0].memory + 8, "........", 8);
		if (!rows[i].takes) { /* of the three receives, one is left */
			send_from(&s[0], 0, 8);
			expect(&s[0], 0, IBV_WC_SUCCESS);
			expect(&s[1], 2, IBV_WC_SUCCESS);
		}
	}
	post_between(s, IBV_WR_SEND_WITH_INV);
	assert_int_not_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
}

enum { BEFORE = 3, AFTER = 2 };

/* Sends BEFORE messages, and leaves AFTER receives. Nobody polls, as both QPs are of one process, which would receive.
 */
static void deliver_some(struct side *s)
{
	begin(s);
	for (uint64_t i = 0; i < BEFORE + AFTER; i++)
		receive_at(&s[1], i, 64 * i, 64);
	for (uint64_t i = 0; i < BEFORE; i++) {
		send_as(&s[0], 0, 8, 0);
		assert_true(is_done(&s[0]));
	}
}

static void what_came_before_the_receiver_failed_is_received(void **state)
{
	struct side *s = *state;
	struct ibv_sge wrong = piece(&s[1], 0, 8);
	struct ibv_send_wr wr = {.wr_id = 77, .sg_list = &wrong, .num_sge = 1, .opcode = IBV_WR_SEND};
	uint64_t received = 0;

	wrong.lkey ^= 0x55;
	deliver_some(s);
	assert_int_equal(side_send(&s[1], &wr), 0); /* fails, and the QP with it */
	for (; received < BEFORE; received++)
		expect(&s[1], received, IBV_WC_SUCCESS);
	expect(&s[1], 77, IBV_WC_LOC_PROT_ERR);
	for (; received < BEFORE + AFTER; received++)
		expect(&s[1], received, IBV_WC_WR_FLUSH_ERR);
	receive_at(&s[1], 5, 0, 64);
	expect(&s[1], 5, IBV_WC_WR_FLUSH_ERR);
}

static void what_came_before_err_is_received(void **state)
{
	struct side *s = *state;

	deliver_some(s);
	bring(s[1].qp, s[0].qp, IBV_QPS_ERR);
	for (uint64_t i = 0; i < BEFORE + AFTER; i++)
		expect(&s[1], i, i < BEFORE ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
}

static void what_came_before_the_port_went_down_is_received(void **state)
{
	struct side *s = *state;
	struct qp *to = (struct qp *)s[1].qp;

	deliver_some(s);
	hook_set(HOOK_PORT_DOWN, true);
	lock_take(&to->lock);
	to->path.severed = true;
	lock_drop(&to->lock);
	for (uint64_t i = 0; i < BEFORE; i++)
		expect(&s[1], i, IBV_WC_SUCCESS);
	hook_set(HOOK_PORT_DOWN, false);
}

static void reset_forgets_what_came_before(void **state)
{
	struct side *s = *state;

	deliver_some(s);
	for (int i = 0; i < 2; i++)
		bring(s[i].qp, s[!i].qp, IBV_QPS_RESET);
	assert_int_equal(ibv_poll_cq(s[1].cq, 1, &(struct ibv_wc){0}), 0);
	begin(s);
	receive_at(&s[1], 9, 0, 64);
	send_from(&s[0], 0, 8);
	expect(&s[1], 9, IBV_WC_SUCCESS);
}

/* The position of a receive wraps in what is shown, and the receiver may post more than that at once. */
static void receives_come_in_their_order(void **state)
{
	struct side *s = *state;
	uint64_t posted = 0, sent = 0, taken = 0;

	begin(s);
	while (taken < 1000) {
		for (; posted - taken < 16; posted++)
			receive_at(&s[1], posted, 64 * (posted % 16), 64);
		for (; sent < posted - taken % 3; sent++) {
			memcpy(s[0].memory, &sent, 8);
			send_from(&s[0], 0, 8);
			expect(&s[0], 0, IBV_WC_SUCCESS);
		}
		for (; taken < sent; taken++) {
			expect(&s[1], taken, IBV_WC_SUCCESS);
			assert_memory_equal(s[1].memory + 64 * (taken % 16), &taken, 8);
		}
	}
}

/* One that is too short fails both ends, one in two pieces and one for a WRITE work, as with packets. */
static void other_receives_work_as_with_packets(void **state)
{
	struct side *s = *state;
	struct ibv_sge two[2] = {piece(&s[1], 0, 4), piece(&s[1], 64, 4)};
	struct ibv_recv_wr in_two = {.wr_id = 1, .sg_list = two, .num_sge = 2, .next = NULL},
			   none = {.wr_id = 2, .next = NULL}, *bad;
	struct ibv_sge sge = piece(&s[0], 0, 8);
	struct ibv_send_wr write = {.sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				    .imm_data = 42,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.rdma = {(uintptr_t)s[1].memory + 128, s[1].mr->rkey}};
	struct ibv_wc wc;

	begin(s);
	memcpy(s[0].memory, "12345678", 8);
	assert_int_equal(ibv_post_recv(s[1].qp, &in_two, &bad), 0);
	send_from(&s[0], 0, 8);
	expect(&s[1], 1, IBV_WC_SUCCESS);
	expect(&s[0], 0, IBV_WC_SUCCESS);
	assert_memory_equal(s[1].memory + 64, "5678", 4);

	assert_int_equal(ibv_post_recv(s[1].qp, &none, &bad), 0);
	assert_int_equal(side_send(&s[0], &write), 0);
	wc = next(s[1].cq);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(wc.imm_data, 42);
	assert_memory_equal(s[1].memory + 128, "12345678", 8);
	expect(&s[0], 0, IBV_WC_SUCCESS);

	receive_at(&s[1], 3, 0, 4);
	send_from(&s[0], 0, 8);
	expect(&s[1], 3, IBV_WC_LOC_LEN_ERR);
	expect(&s[0], 0, IBV_WC_REM_INV_REQ_ERR);
}

/* All again with receives whose memory is not mapped. */
static int open_unmapped(void **state)
{
	reach_maps_nothing = true;
	return open_sides(state);
}

static int close_unmapped(void **state)
{
	reach_maps_nothing = false;
	return close_sides(state);
}

/* A broken peer's: no peer sees the place of a receive in pieces. */
static void what_a_record_carries_stays_in_its_pieces(void **state)
{
	struct side *s = *state;
	struct ibv_sge two[2] = {piece(&s[1], 0, 4), piece(&s[1], 64, 4)};
	struct ibv_recv_wr in_two = {.wr_id = 1, .sg_list = two, .num_sge = 2}, *bad;
	struct qp *to = (struct qp *)s[1].qp;
	struct packet p = {.opcode = OP_SEND_ONLY,
			   .brief = true,
			   .delivered = true,
			   .dest_qpn = s[1].qp->qp_num,
			   .payload = (const uint8_t *)"12345678",
			   .length = 8};

	begin(s);
	memset(s[1].memory, '.', 128);
	assert_int_equal(ibv_post_recv(s[1].qp, &in_two, &bad), 0);
	lock_take(&to->lock);
	p.position = to->rq.head;
	assert_true(engine_receive_delivered(to, &p, NULL));
	lock_drop(&to->lock);
	expect(&s[1], 1, IBV_WC_SUCCESS);
	assert_memory_equal(s[1].memory, "1234....", 8);
	assert_memory_equal(s[1].memory + 64, "5678....", 8);
}

/* A message that came as a packet is acknowledged before the answer, though that is delivered. */
static void what_came_is_acknowledged_before_the_answer(void **state)
{
	struct side *s = *state;
	struct ibv_sge two[2] = {piece(&s[1], 0, 4), piece(&s[1], 64, 4)};
	struct ibv_recv_wr in_two = {.wr_id = 1, .sg_list = two, .num_sge = 2}, *bad;
	struct ibv_sge sge = piece(&s[0], 0, 8);
	struct ibv_send_wr wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	begin(s);
	receive_at(&s[0], 3, 128, 64);
	assert_int_equal(ibv_post_recv(s[1].qp, &in_two, &bad), 0);
	assert_int_equal(side_send(&s[0], &wr), 0);
	expect(&s[1], 1, IBV_WC_SUCCESS);
	send_from(&s[1], 0, 8);
	assert_true(is_done(&s[1]));
	expect(&s[0], 2, IBV_WC_SUCCESS);
	expect(&s[0], 3, IBV_WC_SUCCESS);
	expect(&s[1], 0, IBV_WC_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name)                                                      \
	cmocka_unit_test_setup_teardown(name, open_sides, close_sides), \
		{#name "_carried", name, open_unmapped, close_unmapped, NULL}
		TEST(a_message_is_done_when_it_is_posted),
		TEST(what_its_region_takes_no_more_fails_the_receiver),
		TEST(a_write_does_not_overtake_it),
		TEST(a_list_may_have_any_request_behind_it),
		TEST(what_is_done_in_the_queue_leaves_the_receives_alone),
		TEST(what_came_before_the_receiver_failed_is_received),
		TEST(what_came_before_err_is_received),
		TEST(what_came_before_the_port_went_down_is_received),
		TEST(reset_forgets_what_came_before),
		TEST(receives_come_in_their_order),
		TEST(other_receives_work_as_with_packets),
		TEST(what_a_record_carries_stays_in_its_pieces),
		TEST(what_came_is_acknowledged_before_the_answer),
	};

	enter_namespace(); /* a port that others take down is a hook */
	return cmocka_run_group_tests(tests, open_context, close_context);
}
