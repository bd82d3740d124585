/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a queue pair: which transition takes which attributes. IBTA 11.2.5.2, ibv_modify_qp(3). */
#include "verbs/fixture.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define RESET IBV_QPS_RESET
#define INIT  IBV_QPS_INIT
#define RTR   IBV_QPS_RTR
#define RTS   IBV_QPS_RTS
#define SQD   IBV_QPS_SQD
#define ERR   IBV_QPS_ERR

enum {
	CUR = IBV_QP_CUR_STATE,
	NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	ACCESS = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX,
	PORT = IBV_QP_PORT,
	AV = IBV_QP_AV,
	TIMEOUT = IBV_QP_TIMEOUT,
	RETRY = IBV_QP_RETRY_CNT,
	RNR_RETRY = IBV_QP_RNR_RETRY,
	RD = IBV_QP_MAX_QP_RD_ATOMIC,
	DEST_RD = IBV_QP_MAX_DEST_RD_ATOMIC,
	RNR_TIMER = IBV_QP_MIN_RNR_TIMER,

	MIGRATED = IBV_QP_PATH_MIG_STATE, /* that it has */
	ALT = IBV_QP_ALT_PATH,
	ALL_BITS = (1 << 21) - 1,
};

/* What each transition must and may be given, besides the state itself. */
static const struct row {
	enum ibv_qp_state from, to;
	int must, may;
} table[] = {
	{RESET, RESET, 0, 0},
	{RESET, INIT, INIT_MASK, 0},
	{INIT, RESET, 0, 0},
	{INIT, INIT, 0, PKEY | PORT | ACCESS},
	{INIT, RTR, RTR_MASK, ACCESS | PKEY | ALT},
	{INIT, ERR, 0, 0},
	{RTR, RESET, 0, 0},
	{RTR, RTS, RTS_MASK, CUR | ACCESS | RNR_TIMER | MIGRATED | ALT},
	{RTR, ERR, 0, 0},
	{RTS, RESET, 0, 0},
	{RTS, RTS, 0, CUR | ACCESS | RNR_TIMER | MIGRATED | ALT},
	{RTS, SQD, 0, NOTIFY},
	{RTS, ERR, 0, 0},
	{SQD, RESET, 0, 0},
	{SQD, RTS, 0, CUR | ACCESS | RNR_TIMER | MIGRATED | ALT},
	{SQD, SQD, 0,
	 PORT | AV | TIMEOUT | RETRY | RNR_RETRY | RD | DEST_RD | ACCESS | PKEY | RNR_TIMER | MIGRATED | ALT},
	{SQD, ERR, 0, 0},
	{ERR, RESET, 0, 0},
	{ERR, ERR, 0, 0},
};

static const struct row *find(enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].from == from && table[i].to == to)
			return &table[i];
	return NULL;
}

/* Tries it on a queue pair that is in state `from`; whether it was let. */
static bool let(struct side *s, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = attributes(to, s[1].qp);
	int error;

	bring(s[0].qp, s[1].qp, RESET);
	if (from != RESET)
		bring(s[0].qp, s[1].qp, from);
	a.cur_qp_state = from;
	a.qp_state = to;
	error = ibv_modify_qp(s[0].qp, &a, mask);
	assert_int_equal(s[0].qp->state, error ? from : to);
	assert_true(error == 0 || error == EINVAL || error == EOPNOTSUPP);
	return !error;
}

static void transitions_want_their_attributes(void **state)
{
	struct side *s = *state;

	for (int from = RESET; from <= ERR; from++) {
		for (int to = RESET; to <= ERR + 1; to++) {
			const struct row *row = find(from, to);
			int full = IBV_QP_STATE | (row ? row->must : mask_to(to));

			if (from == IBV_QPS_SQE) /* no RC queue pair is ever in it */
				continue;
			if (let(s, from, to, full) != !!row)
				fail_msg("%d -> %d is %s", from, to, row ? "refused" : "let");
			for (int bit = 1; row && bit <= ALL_BITS; bit <<= 1) {
				int mask = full ^ bit;
				bool wanted = bit == IBV_QP_STATE ? from == to && row
					      : full & bit	  ? false
								  : row->may & bit;

				if (bit == IBV_QP_STATE && from != to)
					continue; /* then it is another transition: from -> from */
				if (let(s, from, to, mask) != wanted)
					fail_msg("%d -> %d, mask %#x is %s", from, to, mask,
						 wanted ? "refused" : "let");
			}
		}
	}
}

static void values_are_checked(void **state)
{
	struct side *s = *state;
	const struct ibv_qp_attr good = attributes(RTR, s[1].qp);
	struct ibv_qp_attr bad;

#define REFUSED(from, to, mask, ...)                                                           \
	do {                                                                                   \
		bring(s[0].qp, s[1].qp, RESET);                                                \
		if ((from) != RESET)                                                           \
			bring(s[0].qp, s[1].qp, from);                                         \
		bad = good;                                                                    \
		bad.qp_state = to;                                                             \
		__VA_ARGS__;                                                                   \
		assert_int_equal(ibv_modify_qp(s[0].qp, &bad, IBV_QP_STATE | (mask)), EINVAL); \
		assert_int_equal(s[0].qp->state, from);                                        \
	} while (0)
	REFUSED(RESET, INIT, INIT_MASK, bad.port_num = 0);
	REFUSED(RESET, INIT, INIT_MASK, bad.port_num = 2);
	REFUSED(RESET, INIT, INIT_MASK, bad.pkey_index = 1);
	REFUSED(RESET, INIT, INIT_MASK, bad.qp_access_flags = 1 << 17);
	REFUSED(INIT, RTR, RTR_MASK, bad.path_mtu = 0);
	REFUSED(INIT, RTR, RTR_MASK, bad.path_mtu = IBV_MTU_4096 + 1);
	REFUSED(INIT, RTR, RTR_MASK, bad.ah_attr.port_num = 2);
	REFUSED(INIT, RTR, RTR_MASK, bad.ah_attr.grh.sgid_index = 64);
	REFUSED(INIT, RTR, RTR_MASK, bad.ah_attr.grh.dgid = (union ibv_gid){0});
	REFUSED(INIT, RTR, RTR_MASK, bad.ah_attr.grh.dgid.raw[12] = 224); /* multicast */
	REFUSED(INIT, RTR, RTR_MASK, bad.ah_attr.is_global = 0; bad.ah_attr.dlid = 0);
	REFUSED(INIT, RTR, RTR_MASK, bad.ah_attr.is_global = 0; bad.ah_attr.dlid = 1);
	REFUSED(RTR, RTS, RTS_MASK | ALT, bad.alt_ah_attr.is_global = 0; bad.alt_ah_attr.dlid = 1);
	REFUSED(INIT, RTR, RTR_MASK, bad.max_dest_rd_atomic = limits.max_qp_rd_atom + 1);
	REFUSED(INIT, RTR, RTR_MASK, bad.min_rnr_timer = 32);
	REFUSED(INIT, RTR, RTR_MASK, bad.dest_qp_num = 1 << 24);
	REFUSED(RTR, RTS, RTS_MASK, bad.timeout = 32);
	REFUSED(RTR, RTS, RTS_MASK, bad.retry_cnt = 8);
	REFUSED(RTR, RTS, RTS_MASK, bad.rnr_retry = 8);
	REFUSED(RTR, RTS, RTS_MASK, bad.max_rd_atomic = limits.max_qp_init_rd_atom + 1);
	REFUSED(RTR, RTS, RTS_MASK | ALT, bad.alt_port_num = 2);
	REFUSED(RTR, RTS, RTS_MASK | ALT, bad.alt_ah_attr.port_num = 2);
	REFUSED(RTR, RTS, RTS_MASK | ALT, bad.alt_ah_attr.grh.sgid_index = 64);
	REFUSED(RTR, RTS, RTS_MASK | ALT, bad.alt_timeout = 32);
	REFUSED(RTR, RTS, RTS_MASK | ALT, bad.alt_pkey_index = 1);
	REFUSED(RTR, RTS, RTS_MASK | MIGRATED, bad.path_mig_state = IBV_MIG_REARM); /* without an alternate path */
	REFUSED(RTR, RTS, RTS_MASK | CUR, bad.cur_qp_state = INIT);
	REFUSED(RTS, 99, 0, (void)0);
	REFUSED(RTS, -1, 0, (void)0);
#undef REFUSED
	bring(s[0].qp, s[1].qp, RESET);
	bring(s[0].qp, s[1].qp, RTS);
	bad = good;
	bad.qp_state = RTS;
	bad.path_mig_state = IBV_MIG_ARMED;
	assert_int_equal(ibv_modify_qp(s[0].qp, &bad, IBV_QP_STATE | MIGRATED), EINVAL);
	bring(s[0].qp, s[1].qp, RESET);
	assert_int_equal(ibv_modify_qp(NULL, &bad, IBV_QP_STATE), EINVAL);
	assert_int_equal(ibv_modify_qp(s[0].qp, NULL, IBV_QP_STATE), EINVAL);
}

/* As programs ask for that do not look at the port: adapters take it. */
static void a_path_mtu_above_the_ports_becomes_the_ports(void **state)
{
	struct side *s = *state;
	struct ibv_qp_attr a = attributes(RTR, s[1].qp), got;
	struct ibv_qp_init_attr init;
	struct ibv_port_attr port;

	if (!ip("link set lo mtu 1500")) {
		print_message("# skipped: no namespace of its own\n");
		return;
	}
	do /* the news is on its way */
		assert_int_equal(ibv_query_port(context, 1, &port), 0);
	while (port.active_mtu != IBV_MTU_1024);
	a.path_mtu = IBV_MTU_4096;
	assert_int_equal(ibv_modify_qp(s[0].qp, &a, RTR_MASK), 0);
	assert_int_equal(ibv_query_qp(s[0].qp, &got, IBV_QP_PATH_MTU, &init), 0);
	assert_int_equal(got.path_mtu, IBV_MTU_1024);
	a.path_mtu = IBV_MTU_4096 + 1;
	bring(s[0].qp, s[1].qp, RESET);
	bring(s[0].qp, s[1].qp, INIT);
	assert_int_equal(ibv_modify_qp(s[0].qp, &a, RTR_MASK), EINVAL);
	assert_true(ip("link set lo mtu 65536"));
}

static void a_query_tells_what_was_modified(void **state)
{
	struct side *s = *state;
	struct ibv_qp_attr a = attributes(RTR, s[1].qp), got;
	struct ibv_qp_init_attr init;

	a.sq_psn = 0x123456;
	a.rq_psn = 0x654321;
	assert_int_equal(ibv_modify_qp(s[0].qp, &a, RTR_MASK), 0);
	a.qp_state = RTS;
	assert_int_equal(ibv_modify_qp(s[0].qp, &a, RTS_MASK), 0);
	assert_int_equal(ibv_query_qp(s[0].qp, &got, ALL_BITS, &init), 0);
	assert_int_equal(got.qp_state, RTS);
	assert_int_equal(got.cur_qp_state, RTS);
	assert_int_equal(got.path_mtu, a.path_mtu);
	assert_int_equal(got.sq_psn, a.sq_psn);
	assert_int_equal(got.rq_psn, a.rq_psn);
	assert_int_equal(got.dest_qp_num, a.dest_qp_num);
	assert_int_equal(got.qp_access_flags, a.qp_access_flags);
	assert_memory_equal(&got.ah_attr, &a.ah_attr, sizeof(a.ah_attr));
	assert_int_equal(got.max_rd_atomic, a.max_rd_atomic);
	assert_int_equal(got.max_dest_rd_atomic, a.max_dest_rd_atomic);
	assert_int_equal(got.min_rnr_timer, a.min_rnr_timer);
	assert_int_equal(got.port_num, 1);
	assert_int_equal(got.timeout, a.timeout);
	assert_int_equal(got.retry_cnt, a.retry_cnt);
	assert_int_equal(got.rnr_retry, a.rnr_retry);
	assert_int_equal(got.sq_draining, 0);
}

/* A program computes from it how much of a failed WRITE has come. */
static void the_psns_are_told_in_ERR_too(void **state)
{
	struct side *s = *state;
	struct ibv_sge sge = piece(&s[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp_attr a, b;
	struct ibv_qp_init_attr init;

	connect_sides(s);
	assert_int_equal(side_receive(&s[1], 1), 0);
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_query_qp(s[0].qp, &a, ALL_BITS, &init), 0);
		assert_int_equal(ibv_query_qp(s[1].qp, &b, ALL_BITS, &init), 0);
		assert_int_equal(a.sq_psn, (s[0].qp->qp_num & 0xfff) + 1);
		assert_int_equal(b.rq_psn, a.sq_psn);
		bring(s[0].qp, s[1].qp, ERR);
		bring(s[1].qp, s[0].qp, ERR);
	}
	bring(s[0].qp, s[1].qp, RESET);
	bring(s[0].qp, s[1].qp, INIT);
	bring(s[0].qp, s[1].qp, ERR);
	assert_int_equal(ibv_query_qp(s[0].qp, &a, ALL_BITS, &init), 0);
	assert_int_equal(a.sq_psn | a.rq_psn, 0);
}

static void a_drained_send_queue_says_so(void **state)
{
	struct side *s = *state;
	struct ibv_qp_attr a = {.qp_state = SQD, .en_sqd_async_notify = 1};
	struct ibv_async_event e;

	connect_sides(s);
	assert_int_equal(side_write(&s[0], &s[1], 4096), 0);
	assert_int_equal(ibv_modify_qp(s[0].qp, &a, IBV_QP_STATE | NOTIFY), 0);
	do {
		assert_int_equal(ibv_get_async_event(context, &e), 0);
		ibv_ack_async_event(&e);
	} while (e.event_type != IBV_EVENT_SQ_DRAINED);
	assert_ptr_equal(e.element.qp, s[0].qp);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0); /* waits */
	a.qp_state = RTS;
	assert_int_equal(ibv_modify_qp(s[0].qp, &a, IBV_QP_STATE), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
}

/* What has been received is done, though nobody has looked yet, as it is on an adapter. A peer that has what it wanted
 * may say by another way that it is over. */
static void a_failure_comes_behind_what_has_arrived(void **state)
{
	struct side *s = *state;
	struct ibv_sge sge = piece(&s[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	for (int i = 0; i < 20; i++) {
		connect_sides(s);
		assert_int_equal(side_receive(&s[1], 1), 0);
		assert_int_equal(side_send(&s[0], &wr), 0);
		assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
		if (i % 2)
			bring(s[1].qp, s[0].qp, ERR);
		bring(s[0].qp, s[1].qp, ERR);
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
		bring(s[0].qp, s[1].qp, RESET);
		bring(s[1].qp, s[0].qp, RESET);
	}
}

/* What a program did that has a GID index of another machine built in. */
static void a_gid_of_the_wrong_family_is_named(void **state)
{
	struct side *s = *state;
	struct ibv_qp_attr a = attributes(IBV_QPS_RTR, s[1].qp);
	int out = dup(STDERR_FILENO), pipes[2];
	char said[512];
	ssize_t got;

	bring(s[0].qp, s[1].qp, IBV_QPS_INIT);
	a.ah_attr.grh.sgid_index = 1; /* ::1, and the peer is at 127.0.0.1 */
	assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
	dup2(pipes[1], STDERR_FILENO);
	assert_int_equal(ibv_modify_qp(s[0].qp, &a, RTR_MASK), EINVAL);
	dup2(out, STDERR_FILENO);
	close(out);
	got = read(pipes[0], said, sizeof(said) - 1);
	said[got > 0 ? got : 0] = 0;
	close(pipes[0]);
	close(pipes[1]);
	assert_non_null(strstr(said, "GID index 1 is ::1"));
	assert_non_null(strstr(said, "127.0.0.1"));
	assert_non_null(strstr(said, "use GID index 0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(transitions_want_their_attributes, open_sides, close_sides),
		cmocka_unit_test_setup_teardown(values_are_checked, open_sides, close_sides),
		cmocka_unit_test_setup_teardown(a_path_mtu_above_the_ports_becomes_the_ports, open_sides, close_sides),
		cmocka_unit_test_setup_teardown(a_query_tells_what_was_modified, open_sides, close_sides),
		cmocka_unit_test_setup_teardown(the_psns_are_told_in_ERR_too, open_sides, close_sides),
		cmocka_unit_test_setup_teardown(a_drained_send_queue_says_so, open_sides, close_sides),
		cmocka_unit_test_setup_teardown(a_gid_of_the_wrong_family_is_named, open_sides, close_sides),
		cmocka_unit_test_setup_teardown(a_failure_comes_behind_what_has_arrived, open_sides, close_sides),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
