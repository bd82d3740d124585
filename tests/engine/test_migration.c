/* SPDX-License-Identifier: BSD-2-Clause */
/* Alternate paths (IBTA 17.2.8): MigReq, the three states, what migrates and what then happens. The primary path is
 * from `fixture_here` to `fixture_there`, the alternate one from `near` to `far`. */
#include <errno.h>
#include <string.h>

#include "object/srq.h"
#include "requests.h"

static const union ibv_gid near = {.raw = {[10] = 0xff, 0xff, 198, 51, 100, 1}},
			   far = {.raw = {[10] = 0xff, 0xff, 198, 51, 100, 2}};

static int migrate_to(struct fixture *f, enum ibv_mig_state state, int more)
{
	struct ibv_qp_attr a = f->attr;

	a.path_mig_state = state;
	a.alt_ah_attr.grh.dgid = far;
	a.alt_port_num = 1;
	a.alt_timeout = 12;
	if (more & IBV_QP_ALT_PATH)
		f->qp->alternate = (struct path){.sgid = near, .dgid = far};
	return fixture_modify(f, &a, IBV_QP_PATH_MIG_STATE | more);
}

static void rearm(struct fixture *f)
{
	assert_int_equal(migrate_to(f, IBV_MIG_REARM, IBV_QP_ALT_PATH), 0);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_REARM);
}

/* The next message from the peer, which has MigReq or not. */
static void hear(struct fixture *f, uint32_t n, bool migrated, const union ibv_gid *from, const union ibv_gid *to)
{
	struct packet p = request(OP_SEND_ONLY, due_psn(n), 8);

	p.migrated = migrated;
	fixture_post_recv(f, n, 64);
	fixture_give_by(f, p, from, to);
}

static void arm(struct fixture *f)
{
	rearm(f);
	hear(f, 0, false, &fixture_there, &fixture_here);
	expect_taken(f, 0, IBV_WC_SUCCESS);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
	fixture_forget(f);
}

static void expect_migrated(struct fixture *f, uint32_t events)
{
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_memory_equal(&f->qp->path.dgid, &far, sizeof(far));
	assert_memory_equal(&f->qp->alternate.dgid, &fixture_there, sizeof(far));
	assert_memory_equal(&f->qp->attr.ah_attr.grh.dgid, &far, sizeof(far));
	assert_int_equal(f->qp->attr.timeout, 12);
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG], events);
}

static void migreq_tells_the_state(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 8));
	assert_true(expect_sent(f, OP_SEND_ONLY, sent_psn(0))->packet.migrated);
	rearm(f);
	fixture_post(f, send_of(2, 8));
	assert_false(expect_sent(f, OP_SEND_ONLY, sent_psn(1))->packet.migrated);
	hear(f, 0, true, &fixture_there, &fixture_here); /* the peer is not armed yet */
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_REARM);
	assert_false(fixture_sent(f)->packet.migrated); /* the ACK */
	hear(f, 1, false, &fixture_there, &fixture_here);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
	assert_false(fixture_sent(f)->packet.migrated);
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG] + f->event[IBV_EVENT_PATH_MIG_ERR], 0);
}

static void an_ack_arms_too(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	rearm(f);
	fixture_post(f, send_of(1, 8));
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
}

static void a_stranger_arms_nothing(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	rearm(f);
	hear(f, 0, false, &fixture_elsewhere, &fixture_here);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_REARM);
}

/* Automatic migration: IBTA 17.2.8.1.3 */
static void retries_that_are_spent_migrate(void **state)
{
	struct fixture *f = *state;
	bool moved = false;

	fixture_start(f, IBV_QPS_RTS);
	arm(f);
	fixture_post(f, send_of(1, 3 * MTU));
	fixture_forget(f);
	while (!moved) {
		assert_true(fixture_wait_deadline(f));
		assert_int_equal(f->qp->state, IBV_QPS_RTS);
		moved = f->qp->attr.path_mig_state == IBV_MIG_MIGRATED;
		if (!moved)
			fixture_forget(f);
	}
	expect_migrated(f, 1);
	/* all of it is sent again, and the retries are new ones */
	for (uint32_t i = 0; i < 3; i++) {
		const struct sent *s = fixture_sent(f);

		assert_true(psn_equal(s->packet.psn, sent_psn(i)));
		assert_true(s->packet.migrated);
		assert_memory_equal(&s->dgid, &far, sizeof(far));
		assert_int_equal(f->qp->req.retries, f->attr.retry_cnt);
		fixture_give_by(f, ack(sent_psn(i), ACKED), &far, &near);
	}
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void it_migrates_once(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	arm(f);
	fixture_post(f, send_of(1, 8));
	while (f->qp->state == IBV_QPS_RTS)
		assert_true(fixture_wait_deadline(f));
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG], 1);
	expect_done(f, 1, IBV_WC_RETRY_EXC_ERR);
}

static void without_an_armed_path_retries_fail(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	rearm(f);
	fixture_post(f, send_of(1, 8));
	while (f->qp->state == IBV_QPS_RTS)
		assert_true(fixture_wait_deadline(f));
	expect_done(f, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG], 0);
}

static void the_peer_is_followed(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY, due_psn(1), 8);

	fixture_start(f, IBV_QPS_RTS);
	arm(f);
	fixture_post(f, send_of(1, 8)); /* on the path that is dead */
	fixture_forget(f);
	fixture_post_recv(f, 1, 64);
	p.migrated = true;
	fixture_give_by(f, p, &far, &near);
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_migrated(f, 1);
	for (int i = 0; i < 2; i++) /* the ACK and the SEND */
		assert_memory_equal(&fixture_sent(f)->dgid, &far, sizeof(far));
	expect_silence(f);
}

/* Who does not know the PSNs, though all addresses, is not the peer. */
static void a_stranger_is_not_followed(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY, due_psn(1u << 20), 8), a = ack(sent_psn(1u << 20), ACKED);

	fixture_start(f, IBV_QPS_RTS);
	arm(f);
	p.migrated = a.migrated = true;
	fixture_give_by(f, p, &far, &near);
	fixture_give_by(f, a, &far, &near);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG], 0);
}

static void a_request_by_another_path_is_refused(void **state)
{
	static const struct {
		const union ibv_gid *from, *to;
	} rows[] = {{&fixture_there, &fixture_here}, {&far, &fixture_here}, {&fixture_there, &near}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);

		fixture_start(f, IBV_QPS_RTS);
		arm(f);
		for (int times = 0; times < 2; times++)
			hear(f, 1, true, rows[i].from, rows[i].to);
		assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
		assert_int_equal(f->event[IBV_EVENT_PATH_MIG_ERR], 1);
		expect_none(f);
		expect_silence(f);
	}
}

static void a_program_migrates_without_an_event(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	arm(f);
	fixture_post(f, send_of(1, 8));
	fixture_forget(f);
	assert_int_equal(migrate_to(f, IBV_MIG_MIGRATED, 0), 0);
	expect_migrated(f, 0);
	fixture_run(f);
	assert_memory_equal(&expect_sent(f, OP_SEND_ONLY, sent_psn(0))->dgid, &far, sizeof(far));
}

static void it_goes_back_and_forth(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	arm(f);
	assert_int_equal(migrate_to(f, IBV_MIG_MIGRATED, 0), 0);
	assert_int_equal(migrate_to(f, IBV_MIG_REARM, 0), 0); /* the two have changed places */
	hear(f, 1, false, &far, &near);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
	hear(f, 2, true, &fixture_there, &fixture_here);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_memory_equal(&f->qp->path.dgid, &fixture_there, sizeof(far));
	assert_int_equal(f->qp->attr.timeout, f->attr.timeout);
	expect_taken(f, 0 + 1, IBV_WC_SUCCESS);
	expect_taken(f, 2, IBV_WC_SUCCESS);
}

static void not_every_change_is_possible(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(migrate_to(f, IBV_MIG_MIGRATED, 0), 0);    /* it is */
	assert_int_equal(migrate_to(f, IBV_MIG_REARM, 0), -EINVAL); /* without an alternate path */
	assert_int_equal(migrate_to(f, IBV_MIG_ARMED, IBV_QP_ALT_PATH), -EINVAL);
	rearm(f);
	assert_int_equal(migrate_to(f, IBV_MIG_MIGRATED, 0), -EINVAL); /* the peer may be armed */
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_REARM);
	assert_int_equal(fixture_move(f, IBV_QPS_RESET), 0);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(f->qp->attr.alt_port_num, 0);
}

/* UC has no retries: it migrates when it is told to. */
static void uc_follows_its_peer(void **state)
{
	struct fixture *f = *state;

	f->type = IBV_QPT_UC;
	fixture_start(f, IBV_QPS_RTS);
	arm(f);
	hear(f, 1, true, &far, &near);
	expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG], 1);
	assert_memory_equal(&f->qp->path.dgid, &far, sizeof(far));
}

/* ---- XRC ---- */

static struct xrcd domain = {.name = {1, 2}};

/* A target, with an SRQ of its domain and this process. */
static struct fixture *start_target(void **state)
{
	struct fixture *f = *state;

	f->type = IBV_QPT_XRC_RECV;
	fixture_start(f, IBV_QPS_RTS);
	f->srq = srq_create(&f->hca, &f->pd, &domain, &f->recv_cq, 8, 1);
	assert_non_null(f->srq);
	f->qp->xrc->domain = domain.name;
	return f;
}

/* hear(), of a target. */
static void hear_at_target(struct fixture *f, uint32_t n, bool migrated, const union ibv_gid *from,
			   const union ibv_gid *to)
{
	struct ibv_sge sge = fixture_sge(f, MEMORY / 2, 64);
	struct ibv_recv_wr *bad, wr = {.wr_id = n, .sg_list = &sge, .num_sge = 1};
	struct packet p = request(OP_SEND_ONLY, due_psn(n), 8);

	assert_int_equal(srq_post(f->srq, &wr, &bad), 0);
	p.migrated = migrated;
	p.srqn = f->srq->number;
	fixture_give_by(f, p, from, to);
}

static void arm_target(struct fixture *f)
{
	rearm(f);
	hear_at_target(f, 0, false, &fixture_there, &fixture_here);
	expect_taken(f, 0, IBV_WC_SUCCESS);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
	assert_false(expect_sent(f, OP_ACKNOWLEDGE, due_psn(0))->packet.migrated);
}

static void an_initiator_migrates_as_rc_does(void **state)
{
	struct fixture *f = *state;

	f->type = IBV_QPT_XRC_SEND;
	fixture_start(f, IBV_QPS_RTS);
	rearm(f);
	fixture_post(f, send_of(1, 8));
	assert_false(expect_sent(f, OP_SEND_ONLY, sent_psn(0))->packet.migrated);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
	fixture_post(f, send_of(2, 8));
	while (f->qp->attr.path_mig_state == IBV_MIG_ARMED) {
		fixture_forget(f);
		assert_true(fixture_wait_deadline(f));
	}
	expect_migrated(f, 1);
	assert_true(expect_sent(f, OP_SEND_ONLY, sent_psn(1))->packet.migrated);
	fixture_give_by(f, ack(sent_psn(1), ACKED), &far, &near);
	expect_done(f, 2, IBV_WC_SUCCESS);
}

/* Two processes answer for a target: the ACK of one may come after that of the other, which is armed by then. */
static void a_late_answer_is_no_migration(void **state)
{
	struct fixture *f = *state;
	struct packet late = ack(sent_psn(0), ACKED), other = ack(sent_psn(2), ACKED);

	f->type = IBV_QPT_XRC_SEND;
	fixture_start(f, IBV_QPS_RTS);
	rearm(f);
	for (uint64_t i = 0; i < 3; i++)
		fixture_post(f, send_of(i, 8));
	fixture_give(f, ack(sent_psn(1), ACKED));
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
	late.migrated = other.migrated = true;
	fixture_give(f, late);
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG_ERR], 0);
	fixture_give(f, other);
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG_ERR], 1);
}

static void a_target_follows_its_initiator(void **state)
{
	struct fixture *f = start_target(state);

	arm_target(f);
	hear_at_target(f, 1, true, &fixture_there, &fixture_here); /* not by that path */
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG_ERR], 1);
	expect_none(f);
	hear_at_target(f, 1, true, &far, &near);
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_migrated(f, 1);
	assert_memory_equal(&expect_sent(f, OP_ACKNOWLEDGE, due_psn(1))->dgid, &far, sizeof(far));
	assert_int_equal(migrate_to(f, IBV_MIG_REARM, 0), 0);
	hear_at_target(f, 2, false, &far, &near);
	assert_int_equal(migrate_to(f, IBV_MIG_MIGRATED, 0), 0); /* a target has nothing to send again */
	assert_memory_equal(&f->qp->path.dgid, &fixture_there, sizeof(far));
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG], 1);
}

/* What answers a request means nothing to a target, so it says nothing of the path. */
static void a_response_arms_no_target(void **state)
{
	struct fixture *f = start_target(state);

	rearm(f);
	fixture_give(f, ack(f->qp->req.una, ACKED));
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_REARM);
}

/* The responder is in another process, which has reported how far it is. */
static void a_target_goes_by_the_report_of_its_delegate(void **state)
{
	enum { FAR_AHEAD = 1 << 20 };
	struct fixture *f = start_target(state);
	struct packet p = request(OP_SEND_ONLY, due_psn(FAR_AHEAD), 8);

	arm_target(f);
	p.migrated = true;
	fixture_give_by(f, p, &far, &near);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
	f->qp->xrc->delegation = (struct xrc_delegation){.to = 2, .expected = due_psn(FAR_AHEAD)};
	fixture_give_by(f, p, &far, &near);
	expect_migrated(f, 1);
}

/* The owner has looked at the packet: a delegate has no alternate path, and only marks what it sends. */
static void a_delegate_leaves_the_path_to_the_owner(void **state)
{
	struct fixture *f = start_target(state);

	hook_set(HOOK_MIGRATION, true);
	f->qp->xrc->is_delegate = true;
	f->qp->attr.path_mig_state = IBV_MIG_ARMED;
	hear_at_target(f, 0, true, &fixture_there, &fixture_here);
	expect_taken(f, 0, IBV_WC_SUCCESS);
	assert_int_equal(f->event[IBV_EVENT_PATH_MIG] + f->event[IBV_EVENT_PATH_MIG_ERR], 0);
	assert_int_equal(f->qp->attr.path_mig_state, IBV_MIG_ARMED);
	assert_false(expect_sent(f, OP_ACKNOWLEDGE, due_psn(0))->packet.migrated);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(migreq_tells_the_state),
		TEST(an_ack_arms_too),
		TEST(a_stranger_arms_nothing),
		TEST(retries_that_are_spent_migrate),
		TEST(it_migrates_once),
		TEST(without_an_armed_path_retries_fail),
		TEST(the_peer_is_followed),
		TEST(a_stranger_is_not_followed),
		TEST(a_request_by_another_path_is_refused),
		TEST(a_program_migrates_without_an_event),
		TEST(it_goes_back_and_forth),
		TEST(not_every_change_is_possible),
		TEST(uc_follows_its_peer),
		TEST(an_initiator_migrates_as_rc_does),
		TEST(a_late_answer_is_no_migration),
		TEST(a_target_follows_its_initiator),
		TEST(a_response_arms_no_target),
		TEST(a_target_goes_by_the_report_of_its_delegate),
		TEST(a_delegate_leaves_the_path_to_the_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
