/* SPDX-License-Identifier: BSD-2-Clause */
/* Which lane a queue pair has: set where its state, its link, or what can be reached of its peer changes. */
#include "fixture.h"

#define LARGE 16384u

static void modify_state(struct fixture *f, enum ibv_qp_state state)
{
	const struct ibv_qp_attr attr = {.qp_state = state};

	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE), 0);
}

static void change_link(struct fixture *f, uint32_t mtu)
{
	lock_take(&f->qp->lock);
	assert_true(engine_change_link(f->qp, mtu));
	lock_drop(&f->qp->lock);
}

static void set_reach(struct fixture *f, struct reach *reach)
{
	lock_take(&f->qp->lock);
	engine_reach(f->qp, reach);
	lock_drop(&f->qp->lock);
}

static void before_rts_there_is_the_queue_alone(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTR);
	assert_int_equal(f->qp->lane, LANE_QUEUE);
	modify_state(f, IBV_QPS_RESET);
	assert_int_equal(f->qp->lane, LANE_QUEUE);
}

static void of_rc_it_is_udp_at_first(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(f->qp->lane, LANE_UDP);
}

static void of_uc_it_is_the_queue(void **state)
{
	struct fixture *f = *state;

	f->type = IBV_QPT_UC;
	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(f->qp->lane, LANE_QUEUE);
}

static void of_ud_it_is_that_of_datagrams(void **state)
{
	struct fixture *f = *state;

	f->type = IBV_QPT_UD;
	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(f->qp->lane, LANE_DATAGRAM);
}

static void the_link_and_the_peers_memory_decide(void **state)
{
	struct fixture *f = *state;
	struct reach *reach = (struct reach *)f; /* anything that is there: it is not looked at */

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(f->qp->lane, LANE_UDP);
	change_link(f, LARGE);
	assert_int_equal(f->qp->lane, LANE_RING);
	set_reach(f, reach);
	assert_int_equal(f->qp->lane, LANE_MEMORY);
	set_reach(f, NULL);
	assert_int_equal(f->qp->lane, LANE_RING);
	change_link(f, 0);
	assert_int_equal(f->qp->lane, LANE_UDP);
}

static void what_ends_or_interrupts_sending_takes_the_lane_away(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	change_link(f, LARGE);
	modify_state(f, IBV_QPS_SQD);
	assert_int_equal(f->qp->lane, LANE_QUEUE);
	modify_state(f, IBV_QPS_RTS);
	assert_int_equal(f->qp->lane, LANE_RING);
	lock_take(&f->qp->lock);
	engine_fail(f->qp);
	lock_drop(&f->qp->lock);
	assert_int_equal(f->qp->lane, LANE_QUEUE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(before_rts_there_is_the_queue_alone),
		T(of_rc_it_is_udp_at_first),
		T(of_uc_it_is_the_queue),
		T(of_ud_it_is_that_of_datagrams),
		T(the_link_and_the_peers_memory_decide),
		T(what_ends_or_interrupts_sending_takes_the_lane_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
