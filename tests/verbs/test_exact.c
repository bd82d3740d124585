/* SPDX-License-Identifier: BSD-2-Clause */
/* UROCE_QUEUES=exact: queues that have no more room than was asked for. */
#include "verbs/fixture.h"

static struct ibv_pd *pd;

static void a_cq_has_as_many_entries_as_were_asked_for(void **state)
{
	struct ibv_cq *cq;

	assert_non_null(cq = ibv_create_cq(context, 5, NULL, NULL, 0));
	assert_int_equal(cq->cqe, 5);
	assert_int_equal(ibv_resize_cq(cq, 7), 0);
	assert_int_equal(cq->cqe, 7);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void an_srq_takes_as_many_receives(void **state)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 3, .max_sge = 1}};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_srq *srq;

	assert_non_null(srq = ibv_create_srq(pd, &a));
	assert_int_equal(a.attr.max_wr, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void a_qp_takes_as_many_requests_and_inline_bytes(void **state)
{
	struct ibv_qp_cap cap = {3, 3, 4, 1, 10};
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, cq, &cap);
	struct ibv_sge sge = {.addr = (uintptr_t)&cap, .length = 11};
	struct ibv_send_wr wr =
				   {
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND,
					   .send_flags = IBV_SEND_INLINE,
				   },
			   *bad;
	struct ibv_recv_wr receive = {0}, *bad_receive;

	assert_non_null(qp);
	bring(qp, qp, IBV_QPS_RTS);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	bring(qp, qp, IBV_QPS_SQD); /* nothing leaves */
	sge.length = 10;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), ENOMEM);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_post_recv(qp, &receive, &bad_receive), 0);
	assert_int_equal(ibv_post_recv(qp, &receive, &bad_receive), ENOMEM);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static int open_all(void **state)
{
	return open_context(state) || !(pd = ibv_alloc_pd(context));
}

static int close_all(void **state)
{
	return ibv_dealloc_pd(pd) || close_context(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cq_has_as_many_entries_as_were_asked_for),
		cmocka_unit_test(an_srq_takes_as_many_receives),
		cmocka_unit_test(a_qp_takes_as_many_requests_and_inline_bytes),
	};

	setenv("UROCE_QUEUES", "exact", 1);
	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
