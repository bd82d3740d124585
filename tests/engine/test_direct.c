/* One-sided requests whose target can be reached from here: no packet, and in order with those that need one.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "fixture.h"
#include "memory/share.h"
#include "object/show.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static uint8_t there[4 * MTU]; /* the peer's memory */
static struct mr *target;
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
	memset(there, 't', sizeof(there));
	return target ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct share *share = f->hca.share;
	int err = mr_deregister(target);

	fixture_teardown(state);
	reach_close(reach);
	share_destroy(share);
	return err;
}

static void start(struct fixture *f)
{
	fixture_start(f, IBV_QPS_RTS);
	share_open_qp(f->hca.share, PEER_QPN & 0xffff, ALL, (uintptr_t)&f->pd,
		      share_pair(fixture_there.raw, PEER_QPN, fixture_here.raw, f->qp->base.qp_num));
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

/* One of them waits to see that; those after it do not. */
static void what_cannot_be_reached_is_asked_for(void **state)
{
	struct fixture *f = *state;
	uint32_t rkey = target->base.rkey ^ 1;

	start(f);
	post(f, 1, IBV_WR_SEND, 8, 0);
	post(f, 2, IBV_WR_RDMA_READ, 8, rkey);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_silence(f);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_sent(f, OP_READ_REQUEST, sent_psn(1));
	post(f, 3, IBV_WR_RDMA_READ, 8, rkey);
	expect_sent(f, OP_READ_REQUEST, sent_psn(2));
	expect_none(f);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(done_when_posted),
		TEST(or_when_those_before_it_are_done),
		TEST(a_short_write_does_not_wait),
		TEST(what_cannot_be_reached_is_asked_for),
		TEST(what_waits_is_flushed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
