/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC as applications use it: domains, their SRQs, initiator and target QPs, and what goes wrong. Of several processes:
 * test_remote_xrc.c. */
#include "verbs/xrc.h"

#include <string.h>
#include <unistd.h>

static void every_operation_arrives(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
		bool takes_receive;
	} rows[] = {
		{IBV_WR_SEND, LENGTH, true},
		{IBV_WR_SEND_WITH_IMM, LENGTH, true},
		{IBV_WR_SEND, 0, true},
		{IBV_WR_RDMA_WRITE, LENGTH, false},
		{IBV_WR_RDMA_WRITE_WITH_IMM, LENGTH, true},
		{IBV_WR_RDMA_READ, LENGTH, false},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8, false},
	};
	struct ends *e = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_wc wc;

		memset(e->memory, (int)i + 1, HALF);
		memset(e->memory + HALF, (int)i + 101, HALF);
		if (rows[i].takes_receive)
			receive(e, HALF);
		assert_int_equal(post(e, rows[i].opcode, e->srqn, e->target_mr->rkey, rows[i].length), 0);
		wc = next(e->cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.qp_num, e->ini->qp_num);
		if (rows[i].opcode != IBV_WR_ATOMIC_FETCH_AND_ADD)
			assert_memory_equal(e->memory, e->memory + HALF, rows[i].length);
		if (!rows[i].takes_receive)
			continue;
		wc = next(e->srq_cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, 7);
		assert_int_equal(wc.qp_num, e->tgt->qp_num);
		assert_int_equal(wc.byte_len, rows[i].length);
	}
}

static void what_is_wrong_is_refused(void **state)
{
	enum { NO_SRQ, OTHER_DOMAIN, PLAIN_SRQ, SHORT_RECEIVE, WRONG_KEY, KEY_OF_INITIATOR, NO_RECEIVE, ROWS };
	static const struct {
		enum ibv_wr_opcode opcode;
		enum ibv_wc_status status;
		enum ibv_event_type event;
	} rows[ROWS] = {
		[NO_SRQ] = {IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR},
		[OTHER_DOMAIN] = {IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR},
		[PLAIN_SRQ] = {IBV_WR_RDMA_READ, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR},
		[SHORT_RECEIVE] = {IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR},
		[WRONG_KEY] = {IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
		[KEY_OF_INITIATOR] = {IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
		[NO_RECEIVE] = {IBV_WR_SEND, IBV_WC_RNR_RETRY_EXC_ERR},
	};
	struct ends *e = *state;
	struct ibv_xrcd *other = open_domain(-1, O_CREAT);
	struct ibv_srq *of_other = make_srq(e->target_pd, other, e->srq_cq);
	struct ibv_srq *plain = ibv_create_srq(e->target_pd, &(struct ibv_srq_init_attr){.attr = {4, 1}});

	for (int i = 0; i < ROWS; i++) {
		uint32_t srqn = i == NO_SRQ	    ? e->srqn + 1000
				: i == OTHER_DOMAIN ? number_of(of_other)
				: i == PLAIN_SRQ    ? number_of(plain)
						    : e->srqn;
		uint32_t rkey = i == WRONG_KEY		? e->target_mr->rkey + 1
				: i == KEY_OF_INITIATOR ? e->mr->rkey
							: e->target_mr->rkey;
		struct ibv_async_event event;

		if (i == NO_RECEIVE) {
			struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};

			bring(e->ini, e->tgt, IBV_QPS_RESET);
			bring(e->ini, e->tgt, IBV_QPS_RTR);
			a = attributes(IBV_QPS_RTS, e->tgt);
			a.sq_psn = e->ini->qp_num & 0xfff;
			a.rnr_retry = 1;
			assert_int_equal(ibv_modify_qp(e->ini, &a, RTS_MASK), 0);
		}
		if (i == SHORT_RECEIVE)
			receive(e, LENGTH - 1);
		assert_int_equal(post(e, rows[i].opcode, srqn, rkey, LENGTH), 0);
		assert_int_equal(next(e->cq).status, rows[i].status);
		assert_int_equal(state_of(e->ini), IBV_QPS_ERR);
		if (i == SHORT_RECEIVE)
			assert_int_equal(next(e->srq_cq).status, IBV_WC_LOC_LEN_ERR);
		if (rows[i].event) {
			assert_int_equal(ibv_get_async_event(context, &event), 0);
			assert_int_equal(event.event_type, rows[i].event);
			assert_ptr_equal(event.element.qp, e->tgt);
			ibv_ack_async_event(&event);
		}
		bring(e->tgt, e->ini, IBV_QPS_RESET);
		bring(e->ini, e->tgt, IBV_QPS_RESET);
		connect_ends(e);
	}
	assert_int_equal(ibv_destroy_srq(plain), 0);
	assert_int_equal(ibv_destroy_srq(of_other), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

static void an_srq_that_is_gone_is_none(void **state)
{
	struct ends *e = *state;

	assert_int_equal(ibv_destroy_srq(e->srq), 0);
	e->srq = NULL;
	assert_int_equal(post(e, IBV_WR_SEND, e->srqn, 0, LENGTH), 0);
	assert_int_equal(next(e->cq).status, IBV_WC_REM_INV_REQ_ERR);
}

static void each_end_does_its_part_only(void **state)
{
	struct ends *e = *state;
	struct ibv_recv_wr recv = {0}, *bad_recv;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;

	assert_int_equal(ibv_post_recv(e->ini, &recv, &bad_recv), EINVAL);
	assert_int_equal(ibv_post_recv(e->tgt, &recv, &bad_recv), EINVAL);
	assert_int_equal(ibv_post_send(e->tgt, &send, &bad_send), EINVAL);
}

static void parts_are_missed(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
	struct ibv_xrcd_init_attr no_flags = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};
	struct ibv_qp_init_attr plain = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_XRC_RECV};

	assert_errno(make_srq(NULL, xrcd, cq), EINVAL);
	assert_errno(make_srq(pd, NULL, cq), EINVAL);
	assert_errno(make_srq(pd, xrcd, NULL), EINVAL);
	assert_errno(make_target(NULL), EINVAL);
	assert_errno(make_initiator(pd, NULL), EINVAL);
	assert_errno(ibv_create_qp(pd, &plain), EINVAL);
	assert_errno(ibv_open_xrcd(context, &no_flags), EINVAL);
	assert_errno(open_domain(12345, O_CREAT), EBADF);
	assert_errno(open_domain(-1, O_CREAT | O_TRUNC), EINVAL);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void what_is_in_use_stays(void **state)
{
	struct ends *e = *state;

	assert_int_equal(ibv_close_xrcd(e->xrcd), EBUSY);
	assert_int_equal(ibv_destroy_cq(e->srq_cq), EBUSY);
	assert_int_equal(ibv_dealloc_pd(e->target_pd), EBUSY);
}

static void a_file_is_a_domain(void **state)
{
	char name[] = "/tmp/uroce-xrcd-XXXXXX";
	int fd = mkstemp(name), again = open(name, O_RDONLY);
	struct ibv_xrcd *first, *second;

	assert_true(fd >= 0 && again >= 0);
	assert_errno(open_domain(fd, 0), EAGAIN);
	assert_non_null(first = open_domain(fd, O_CREAT | O_EXCL));
	assert_errno(open_domain(again, O_CREAT | O_EXCL), EINVAL);
	assert_non_null(second = open_domain(again, 0));
	assert_int_equal(ibv_close_xrcd(first), 0);
	assert_non_null(first = open_domain(fd, O_CREAT));
	assert_int_equal(ibv_close_xrcd(second), 0);
	assert_int_equal(ibv_close_xrcd(first), 0);
	assert_errno(open_domain(fd, 0), EAGAIN);
	close(fd);
	close(again);
	unlink(name);
}

static void a_target_lives_as_long_as_it_is_open(void **state)
{
	struct ends *e = *state;
	struct ibv_xrcd *other = open_domain(-1, O_CREAT);
	uint32_t number = e->tgt->qp_num;
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;
	struct ibv_qp_attr attr;
	struct ibv_qp *opened;

	assert_errno(open_qp(other, number), EINVAL);
	assert_errno(open_qp(e->xrcd, number + 77), EINVAL);
	assert_errno(open_qp(e->xrcd, e->ini->qp_num), EINVAL);
	assert_non_null(opened = open_qp(e->xrcd, number));
	assert_int_equal(opened->qp_num, number);
	assert_int_equal(ibv_query_qp(opened, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, e->ini->qp_num);

	assert_int_equal(ibv_destroy_qp(e->tgt), 0);
	e->tgt = opened;
	receive(e, HALF);
	assert_int_equal(post(e, IBV_WR_SEND, e->srqn, 0, LENGTH), 0);
	assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
	assert_int_equal(next(e->srq_cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_close_xrcd(e->xrcd), EBUSY);

	/* and the event goes to who is left */
	assert_int_equal(post(e, IBV_WR_SEND, e->srqn + 1, 0, LENGTH), 0);
	assert_int_equal(next(e->cq).status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
	assert_ptr_equal(event.element.qp, opened);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_operation_arrives, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(what_is_wrong_is_refused, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(an_srq_that_is_gone_is_none, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(each_end_does_its_part_only, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(what_is_in_use_stays, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(a_target_lives_as_long_as_it_is_open, open_ends, close_ends),
		cmocka_unit_test(parts_are_missed),
		cmocka_unit_test(a_file_is_a_domain),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
